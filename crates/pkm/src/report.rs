//! Errors in words: one `error:` line with its causes, one `hint:` line where there is a way out.

use std::error::Error as StdError;
use std::fmt;

use pkm_engine::Error as EngineError;

/// A failure that a command found by itself.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    usage: bool,
    source: Option<anyhow::Error>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            usage: false,
            source: None,
        }
    }

    /// A failure to say the command right: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            usage: true,
            ..Self::new(message)
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub(crate) fn source(self, source: impl Into<anyhow::Error>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref())
    }
}

/// The end of another program, which ran in our place and has said why.
#[derive(Debug)]
pub(crate) struct Exit(pub(crate) u8);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with {}", self.0)
    }
}

impl StdError for Exit {}

/// What stderr shows, without the last line end.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let mut text = format!("error: {}", chain(error));
    if let Some(hint) = hint(error) {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(Exit(code)) = error.downcast_ref() {
        return *code;
    }
    let usage = error.chain().any(|cause| {
        cause
            .downcast_ref::<Failure>()
            .is_some_and(|failure| failure.usage)
            || matches!(cause.downcast_ref(), Some(EngineError::Invalid { .. }))
    });
    if usage { 2 } else { 1 }
}

/// The message and its causes, each said once.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let (cause, _) = split_hint(&cause);
        if text.is_empty() {
            text.push_str(cause);
        } else if !text.ends_with(cause) {
            text.push_str(": ");
            text.push_str(cause);
        }
    }
    text
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.hint.clone();
        }
        if let Some(error) = cause.downcast_ref::<EngineError>() {
            return engine_hint(error);
        }
        split_hint(&cause.to_string()).1.map(str::to_owned)
    })
}

/// The library crates write a way out behind the message.
fn split_hint(message: &str) -> (&str, Option<&str>) {
    match message.split_once("; hint: ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (message, None),
    }
}

fn engine_hint(error: &EngineError) -> Option<String> {
    let hint = match error {
        EngineError::NotFound { .. } => "`pkm list` and `pkm search` show the ids".to_owned(),
        EngineError::Trashed { id } => format!("`pkm restore {id}` takes it out of the trash"),
        EngineError::NoRevision { id, .. } => {
            format!("`pkm history {id}` shows the revisions there are")
        }
        EngineError::NoJob { .. } => "`pkm jobs` shows the jobs there are".to_owned(),
        EngineError::Conflict { id, .. } => {
            format!("`pkm get {id} --json` shows the note and its revision")
        }
        EngineError::TrashChanged { .. } => "`pkm trash` shows what is in it now".to_owned(),
        EngineError::StaleIndex { .. } => {
            "`pkm reindex` moves the notes to the model in use; `--keyword` finds words meanwhile"
                .to_owned()
        }
        EngineError::NoModel { .. } => "`--keyword` finds words without a model".to_owned(),
        EngineError::ReadOnly { .. } => {
            "make the folder writable, or choose another with `--data` or `PKM_HOME`".to_owned()
        }
        EngineError::DiskFull { .. } => {
            "free some space and run the command again; every note acknowledged before is kept"
                .to_owned()
        }
        EngineError::Invalid { .. }
        | EngineError::Busy { .. }
        | EngineError::Cancelled
        | EngineError::Folder { .. }
        | EngineError::Internal { .. } => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_the_message_and_none_is_said_twice() {
        let io = std::io::Error::other("no such device");
        let inner = Failure::new("reading `a.md` failed: no such device").source(io);
        let error = anyhow::Error::new(
            Failure::new("import stopped")
                .source(inner)
                .hint("run it again"),
        );
        assert_eq!(
            render(&error),
            "error: import stopped: reading `a.md` failed: no such device\nhint: run it again"
        );
        assert_eq!(exit_code(&error), 1);
    }

    #[test]
    fn a_rule_broken_by_an_argument_is_a_usage_error() {
        let invalid = EngineError::Invalid {
            field: "limit",
            reason: "must be 1 to 200".to_owned(),
        };
        assert_eq!(exit_code(&invalid.into()), 2);
        assert_eq!(exit_code(&Failure::usage("`x` is no date").into()), 2);
    }
}
