//! The methods that the protocol knows: who sends them, in which revisions, with what.
//!
//! From the schemas of the specification's revisions, and those of the tasks extension (SEP-2663) and
//! the skills extension (SEP-2640).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the client to the server.
    #[serde(rename = "in")]
    ToServer,
    /// From the server to the client.
    #[serde(rename = "out")]
    ToClient,
}

impl Direction {
    /// The other way.
    pub fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    /// Who sends what goes this way.
    pub(crate) fn sender(self) -> &'static str {
        match self {
            Self::ToServer => "client",
            Self::ToClient => "server",
        }
    }
}

/// A revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

use Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};

impl Revision {
    const ALL: [Self; 5] = [
        V2024_11_05,
        Self::V2025_03_26,
        V2025_06_18,
        V2025_11_25,
        V2026_07_28,
    ];

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|this| this.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether every request carries its own version, and there is no handshake.
    pub(crate) fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether several messages may come as one array.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }
}

/// What a message with a method is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Request,
    Notification,
}

/// What kind of value a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Number,
    Object,
    Array,
    /// A string or an integer.
    Id,
}

impl Shape {
    pub(crate) fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::Id => value.is_string() || value.is_i64() || value.is_u64(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Id => "a string or an integer",
        }
    }
}

type Fields = &'static [(&'static str, Shape)];

/// A method as one side sends it.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) direction: Direction,
    /// The first revision that has it.
    pub(crate) first: Revision,
    /// The last revision that has it.
    pub(crate) last: Revision,
    /// What `params` must hold.
    pub(crate) params: Fields,
    /// What a result must hold.
    pub(crate) result: Fields,
}

/// A request of the client.
const fn asks(name: &'static str, first: Revision, last: Revision) -> Method {
    Method {
        name,
        form: Form::Request,
        direction: Direction::ToServer,
        first,
        last,
        params: &[],
        result: &[],
    }
}

impl Method {
    const fn by_server(self) -> Self {
        Self {
            direction: Direction::ToClient,
            ..self
        }
    }

    const fn notifies(self) -> Self {
        Self {
            form: Form::Notification,
            ..self
        }
    }

    const fn with(self, params: Fields) -> Self {
        Self { params, ..self }
    }

    const fn gives(self, result: Fields) -> Self {
        Self { result, ..self }
    }
}

const URI: Fields = &[("uri", Shape::Text)];
const NAME: Fields = &[("name", Shape::Text)];
const TASK: Fields = &[("taskId", Shape::Text)];
const PROGRESS: Fields = &[("progressToken", Shape::Id), ("progress", Shape::Number)];
const MESSAGES: Fields = &[("messages", Shape::Array)];

const METHODS: &[Method] = &[
    asks("initialize", V2024_11_05, V2025_11_25)
        .with(&[
            ("protocolVersion", Shape::Text),
            ("capabilities", Shape::Object),
            ("clientInfo", Shape::Object),
        ])
        .gives(&[
            ("protocolVersion", Shape::Text),
            ("capabilities", Shape::Object),
            ("serverInfo", Shape::Object),
        ]),
    asks("server/discover", V2026_07_28, V2026_07_28).gives(&[
        ("supportedVersions", Shape::Array),
        ("capabilities", Shape::Object),
    ]),
    asks("ping", V2024_11_05, V2025_11_25),
    asks("ping", V2024_11_05, V2025_11_25).by_server(),
    asks("tools/list", V2024_11_05, V2026_07_28).gives(&[("tools", Shape::Array)]),
    asks("tools/call", V2024_11_05, V2026_07_28)
        .with(NAME)
        .gives(&[("content", Shape::Array)]),
    asks("resources/list", V2024_11_05, V2026_07_28).gives(&[("resources", Shape::Array)]),
    asks("resources/templates/list", V2024_11_05, V2026_07_28)
        .gives(&[("resourceTemplates", Shape::Array)]),
    asks("resources/read", V2024_11_05, V2026_07_28)
        .with(URI)
        .gives(&[("contents", Shape::Array)]),
    asks("resources/subscribe", V2024_11_05, V2025_11_25).with(URI),
    asks("resources/unsubscribe", V2024_11_05, V2025_11_25).with(URI),
    asks("subscriptions/listen", V2026_07_28, V2026_07_28)
        .with(&[("notifications", Shape::Object)]),
    asks("prompts/list", V2024_11_05, V2026_07_28).gives(&[("prompts", Shape::Array)]),
    asks("prompts/get", V2024_11_05, V2026_07_28)
        .with(NAME)
        .gives(MESSAGES),
    asks("completion/complete", V2024_11_05, V2026_07_28)
        .with(&[("ref", Shape::Object), ("argument", Shape::Object)])
        .gives(&[("completion", Shape::Object)]),
    asks("logging/setLevel", V2024_11_05, V2025_11_25).with(&[("level", Shape::Text)]),
    asks("tasks/get", V2025_11_25, V2026_07_28).with(TASK),
    asks("tasks/get", V2025_11_25, V2025_11_25)
        .with(TASK)
        .by_server(),
    asks("tasks/cancel", V2025_11_25, V2026_07_28).with(TASK),
    asks("tasks/cancel", V2025_11_25, V2025_11_25)
        .with(TASK)
        .by_server(),
    asks("tasks/result", V2025_11_25, V2025_11_25).with(TASK),
    asks("tasks/result", V2025_11_25, V2025_11_25)
        .with(TASK)
        .by_server(),
    asks("tasks/list", V2025_11_25, V2025_11_25),
    asks("tasks/list", V2025_11_25, V2025_11_25).by_server(),
    asks("tasks/update", V2026_07_28, V2026_07_28).with(TASK),
    asks("skills/list", V2026_07_28, V2026_07_28),
    asks("skills/get", V2026_07_28, V2026_07_28),
    asks("resources/directory/read", V2026_07_28, V2026_07_28),
    asks("sampling/createMessage", V2024_11_05, V2025_11_25)
        .with(MESSAGES)
        .by_server(),
    asks("roots/list", V2024_11_05, V2025_11_25)
        .gives(&[("roots", Shape::Array)])
        .by_server(),
    asks("elicitation/create", V2025_06_18, V2025_11_25)
        .with(&[("message", Shape::Text)])
        .gives(&[("action", Shape::Text)])
        .by_server(),
    asks("notifications/initialized", V2024_11_05, V2025_11_25).notifies(),
    asks("notifications/cancelled", V2024_11_05, V2026_07_28).notifies(),
    asks("notifications/cancelled", V2024_11_05, V2026_07_28)
        .notifies()
        .by_server(),
    asks("notifications/progress", V2024_11_05, V2025_11_25)
        .notifies()
        .with(PROGRESS),
    asks("notifications/progress", V2024_11_05, V2026_07_28)
        .notifies()
        .with(PROGRESS)
        .by_server(),
    asks("notifications/roots/list_changed", V2024_11_05, V2025_11_25).notifies(),
    asks("notifications/tasks/status", V2025_11_25, V2025_11_25)
        .notifies()
        .with(TASK),
    asks("notifications/tasks/status", V2025_11_25, V2025_11_25)
        .notifies()
        .with(TASK)
        .by_server(),
    asks("notifications/tasks", V2026_07_28, V2026_07_28)
        .notifies()
        .by_server(),
    asks("notifications/message", V2024_11_05, V2026_07_28)
        .notifies()
        .with(&[("level", Shape::Text)])
        .by_server(),
    asks("notifications/resources/updated", V2024_11_05, V2026_07_28)
        .notifies()
        .with(URI)
        .by_server(),
    asks(
        "notifications/resources/list_changed",
        V2024_11_05,
        V2026_07_28,
    )
    .notifies()
    .by_server(),
    asks("notifications/tools/list_changed", V2024_11_05, V2026_07_28)
        .notifies()
        .by_server(),
    asks(
        "notifications/prompts/list_changed",
        V2024_11_05,
        V2026_07_28,
    )
    .notifies()
    .by_server(),
    asks(
        "notifications/elicitation/complete",
        V2025_11_25,
        V2025_11_25,
    )
    .notifies()
    .by_server(),
    asks(
        "notifications/subscriptions/acknowledged",
        V2026_07_28,
        V2026_07_28,
    )
    .notifies()
    .by_server(),
];

/// The method as either side sends it; empty for one that is not known.
pub(crate) fn find(name: &str) -> impl Iterator<Item = &'static Method> {
    METHODS.iter().filter(move |method| method.name == name)
}

/// What a message with this method is, where the method is known.
pub(crate) fn form(name: &str) -> Option<Form> {
    find(name).next().map(|method| method.form)
}

/// The method as it is sent this way, or either way where the way is not known.
pub(crate) fn sent(name: &str, direction: Option<Direction>) -> Option<&'static Method> {
    find(name).find(|method| direction.is_none_or(|direction| method.direction == direction))
}

const NOTIFICATIONS: &str = "notifications/";

/// The known method that `name` was most likely meant to be, among those sent this way.
pub(crate) fn nearest(name: &str, direction: Option<Direction>) -> Option<&'static Method> {
    let fits = |method: &&Method| direction.is_none_or(|way| method.direction == way);
    let known = METHODS.iter().filter(fits).map(|method| method.name);
    // What all notifications have in common makes none of them likely.
    let nearest = match name.strip_prefix(NOTIFICATIONS) {
        Some(rest) => {
            let nearest = text::nearest(
                rest,
                known.filter_map(|name| name.strip_prefix(NOTIFICATIONS)),
            );
            nearest.map(|nearest| format!("{NOTIFICATIONS}{nearest}"))
        }
        None => text::nearest(name, known).map(str::to_owned),
    };
    nearest.and_then(|nearest| sent(&nearest, direction))
}
