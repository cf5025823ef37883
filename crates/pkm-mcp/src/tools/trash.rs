//! `empty_trash`.

use pkm_engine::{Error as EngineError, Purged, Timestamp, TrashContents, TrashedNote};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, NoteTool, Turn};
use crate::{
    confirm::{Consent, Question},
    text::{count, cut, one_line, parse_time},
    wire::{Fault, Refusal},
};

/// Of a title that is shown with the question.
const TITLE_MAX_BYTES: usize = 120;

#[derive(Debug)]
pub(super) struct EmptyTrash;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyArguments {
    /// Only notes deleted before this date or RFC 3339 time; the whole trash if left out.
    deleted_before: Option<String>,
    /// How many notes the user agreed to lose. Leave it out at first: where it is needed, the
    /// refusal says which number to send.
    confirm: Option<usize>,
}

/// What became of the trash.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Emptied {
    outcome: OutcomeWord,
    /// Notes that are gone for good.
    deleted: usize,
    /// Former revisions that went with them.
    revisions: usize,
    /// Notes still in the trash.
    trashed: usize,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Deleted,
    // The user said no.
    Declined,
    NothingToDelete,
}

impl NoteTool for EmptyTrash {
    const NAME: &'static str = "empty_trash";
    const TITLE: &'static str = "Empty the trash for good";
    const DESCRIPTION: &'static str = "Deletes the notes in the trash for good, with all their revisions; nothing \
        brings them back. Use it only when the user asks for it: deleted notes leave the trash by themselves in time. \
        The user is asked before anything is deleted; where the client cannot ask, the first call is refused with the \
        number of notes, and you ask the user yourself.";
    const EFFECT: Effect = Effect::Destroys;
    type Arguments = EmptyArguments;
    type Answer = Emptied;

    fn call(turn: &Turn, arguments: EmptyArguments) -> Result<Emptied, Fault> {
        let before = arguments
            .deleted_before
            .map(|text| parse_time("deleted_before", &text))
            .transpose()?;
        let contents = turn.engine.trash_contents(before)?;
        let mark = match &turn.consent {
            Consent::Refused => return emptied(turn, OutcomeWord::Declined, Purged::default()),
            _ if contents.n_notes == 0 => {
                return emptied(turn, OutcomeWord::NothingToDelete, Purged::default());
            }
            // The trash may hold other notes by now; then the user is asked again.
            Consent::Given(mark) if *mark == contents.mark => mark,
            Consent::Given(_) | Consent::CanAsk => {
                return Err(Fault::MustAsk(question(&contents, before)));
            }
            Consent::CannotAsk if arguments.confirm == Some(contents.n_notes) => &contents.mark,
            Consent::CannotAsk => return Err(confirmation_required(&contents, arguments.confirm)),
        };
        match turn.engine.empty_trash(before, Some(mark)) {
            Ok(purged) => emptied(turn, OutcomeWord::Deleted, purged),
            Err(EngineError::TrashChanged { .. }) => {
                let contents = turn.engine.trash_contents(before)?;
                Err(match turn.consent {
                    Consent::CannotAsk => confirmation_required(&contents, arguments.confirm),
                    _ => Fault::MustAsk(question(&contents, before)),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn text(answer: &Emptied) -> String {
        let rest = format!("{} in the trash", count(answer.trashed, "note"));
        match answer.outcome {
            OutcomeWord::Deleted => format!(
                "Deleted {} for good, with {}; {rest} now.",
                count(answer.deleted, "note"),
                count(answer.revisions, "former revision"),
            ),
            OutcomeWord::Declined => format!("The user said no; nothing was deleted, {rest}."),
            OutcomeWord::NothingToDelete => format!("There is nothing to delete; {rest}."),
        }
    }
}

fn emptied(turn: &Turn, outcome: OutcomeWord, purged: Purged) -> Result<Emptied, Fault> {
    Ok(Emptied {
        outcome,
        deleted: purged.n_notes,
        revisions: purged.n_revisions,
        trashed: turn.engine.trash_contents(None)?.n_notes,
    })
}

fn question(contents: &TrashContents, before: Option<Timestamp>) -> Question {
    let which = match before {
        Some(before) => format!("deleted before {before}"),
        None => "in the trash".to_owned(),
    };
    let message = format!(
        "Delete {} {which} for good? All former revisions go too, and nothing brings them back. {}",
        count(contents.n_notes, "note"),
        examples(contents),
    );
    Question {
        message,
        mark: contents.mark.clone(),
    }
}

fn examples(contents: &TrashContents) -> String {
    let line = |note: &TrashedNote| {
        let title = one_line(&note.title);
        let day = note.deleted_at.to_string();
        let title = cut(&title, TITLE_MAX_BYTES).0;
        format!("\"{title}\" (deleted {})", day.get(..10).unwrap_or(&day))
    };
    match (&contents.oldest, &contents.newest) {
        (Some(oldest), Some(newest)) if contents.n_notes > 1 => format!(
            "The first deleted is {}, the last {}.",
            line(oldest),
            line(newest)
        ),
        (Some(only), _) => format!("It is {}.", line(only)),
        (None, _) => String::new(),
    }
}

fn confirmation_required(contents: &TrashContents, confirm: Option<usize>) -> Fault {
    let n_notes = contents.n_notes;
    let about = match confirm {
        Some(confirm) => format!(
            "confirm is {confirm}, but it would be {}",
            count(n_notes, "note")
        ),
        None => format!("it would be {} for good", count(n_notes, "note")),
    };
    Fault::Refused(Refusal {
        code: "confirmation_required",
        message: format!(
            "nothing was deleted: {about}. {} If the user agrees to lose them, call empty_trash with confirm {n_notes}",
            examples(contents)
        ),
        retryable: true,
        details: json!({"notes": n_notes, "confirm": n_notes}),
    })
}
