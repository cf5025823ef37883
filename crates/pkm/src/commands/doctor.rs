//! `pkm doctor`

use anyhow::Result;
use pkm_embed::ModelState;
use pkm_engine::{Finding, ModelState as EngineModelState, Severity};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::config::Config;
use crate::models;
use crate::out::{self, Out};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    format: Format,
}

/// Fails when there is a problem that was not repaired.
pub(crate) fn run(args: &Doctor, config: &Config, out: &mut Out) -> Result<()> {
    let model = model_finding(config)?;
    let engine = wiring::open(config, Turn::Never, ModelUse::Load)?;
    // Only a loaded model says which passages are its own.
    let state = engine.wait_model(wiring::MODEL_WAIT);
    let mut findings = engine.doctor()?;
    let mut repaired = Vec::new();
    if args.repair && n_problems(&findings) > 0 {
        repaired = engine.repair()?;
        findings = engine.doctor()?;
    }
    findings.extend(model);
    if let EngineModelState::Away { reason } = state {
        let severity = Severity::Note;
        let what = format!("the model is away: {reason}");
        findings.push(Finding { severity, what });
    }
    let n_problems = n_problems(&findings);
    if args.format.json {
        let findings: Vec<Value> = findings.iter().map(to_json).collect();
        out.json(&json!({ "findings": findings, "repaired": repaired }))?;
    } else {
        for what in &repaired {
            out.line(format!("repaired: {what}"))?;
        }
        for finding in &findings {
            let severity = severity(finding.severity);
            out.line(format!("{severity}: {}", out::plain(&finding.what)))?;
        }
        if n_problems == 0 {
            out.line("all is well")?;
        }
    }
    if n_problems == 0 {
        return Ok(());
    }
    let failure = Failure::new(format!("found {}", out::count(n_problems, "problem")));
    Err(if args.repair {
        failure.into()
    } else {
        failure
            .hint("`pkm doctor --repair` mends what can be mended")
            .into()
    })
}

fn n_problems(findings: &[Finding]) -> usize {
    let is_problem = |finding: &&Finding| matches!(finding.severity, Severity::Problem);
    findings.iter().filter(is_problem).count()
}

/// What is to be said about the model, with its checksums compared.
fn model_finding(config: &Config) -> Result<Option<Finding>> {
    let finding = |severity, what| Some(Finding { severity, what });
    let manifest = match models::in_use(config) {
        Ok(Some(choice)) => choice.manifest,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(finding(Severity::Problem, models::undescribed(error)?)),
    };
    let folder = models::folder(config);
    let name = &manifest.name;
    Ok(match folder.state(&manifest) {
        // Words can be searched without a model, so this is no fault.
        ModelState::Missing => finding(
            Severity::Note,
            format!(
                "the model `{name}` is not installed; {}",
                models::how_to_get(&manifest, folder.root())
            ),
        ),
        ModelState::Damaged(_) | ModelState::Installed => match folder.verify(&manifest) {
            Ok(()) => None,
            Err(error) => finding(
                Severity::Problem,
                error.to_string().replace("; hint: ", "; "),
            ),
        },
    })
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "severity": severity(finding.severity),
        "what": finding.what,
    })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "problem",
        Severity::Note => "note",
    }
}
