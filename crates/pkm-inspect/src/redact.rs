//! What a log must not tell: the texts of the user.
//!
//! Everything under `params` and `result` counts as the user's, unless it is listed here. So what a
//! new method brings is hidden until somebody thinks about it.

use serde_json::{Map, Value};

/// What of the messages is kept in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redaction {
    /// Texts of the user are replaced by their length, as in `[12 chars]`. Kept are ids, methods,
    /// names of tools and arguments, numbers, states, codes, definitions of tools and prompts, and
    /// error messages without what they quote.
    #[default]
    NoteText,
    /// Everything is kept.
    None,
}

/// Names of arguments whose values are no text of the user, as long as they look like a symbol.
const ARGUMENTS: &[&str] = &["id", "job_id", "note_id", "mode", "scope", "sort", "type"];

/// The same for results and parameters.
const FIELDS: &[&str] = &[
    "action",
    "cacheScope",
    "code",
    "created_at",
    "createdAt",
    "deleted",
    "expected",
    "field",
    "found",
    "id",
    "indexed",
    "job_id",
    "kind",
    "lastUpdatedAt",
    "level",
    "logger",
    "method",
    "mimeType",
    "mode",
    "note_id",
    "reference",
    "requested",
    "restorable_until",
    "resultType",
    "role",
    "scope",
    "state",
    "status",
    "supported",
    "taskId",
    "type",
    "updated_at",
];

/// Parts of `params` that a program writes about itself.
const OWN_PARAMS: &[&str] = &[
    "capabilities",
    "clientInfo",
    "progressToken",
    "protocolVersion",
    "requestId",
];

/// Parts of a result that a program writes about itself.
const OWN_RESULTS: &[&str] = &[
    "capabilities",
    "instructions",
    "prompts",
    "protocolVersion",
    "resourceTemplates",
    "serverInfo",
    "supportedVersions",
    "tools",
];

/// Longer symbols could be text.
const MAX_SYMBOL_CHARS: usize = 64;

/// Longer error messages could hold a text.
const MAX_ERROR_CHARS: usize = 200;

/// Hides texts of the user in a message or a batch; whether there were any.
pub(crate) fn message(message: &mut Value, redaction: Redaction) -> bool {
    if redaction == Redaction::None {
        return false;
    }
    let mut eraser = Eraser { has_erased: false };
    match message {
        Value::Array(items) => {
            for item in items {
                eraser.message(item);
            }
        }
        other => eraser.message(other),
    }
    eraser.has_erased
}

/// `[12 chars]`.
pub(crate) fn mask(text: &str) -> String {
    format!("[{} chars]", text.chars().count())
}

struct Eraser {
    has_erased: bool,
}

impl Eraser {
    fn message(&mut self, message: &mut Value) {
        let Value::Object(object) = message else {
            return self.content(message, "", &[]);
        };
        self.keys(object);
        for (name, value) in object.iter_mut() {
            match (name.as_str(), value) {
                ("jsonrpc" | "id", Value::String(_)) => {}
                ("method", value) => self.symbol(value),
                ("params", value) => self.params(value),
                ("result", value) => self.result(value),
                ("error", value) => self.error(value),
                (_, value) => self.content(value, "", &[]),
            }
        }
    }

    fn params(&mut self, params: &mut Value) {
        let Value::Object(object) = params else {
            return self.content(params, "", &[]);
        };
        self.keys(object);
        for (name, value) in object.iter_mut() {
            match name.as_str() {
                own if OWN_PARAMS.contains(&own) => {}
                "_meta" => self.meta(value),
                "name" => self.symbol(value),
                "reason" => self.error_text(value),
                "arguments" => self.content(value, "", ARGUMENTS),
                "ref" => {
                    self.content(value, "", &["type", "name", "uri"]);
                }
                "argument" => self.content(value, "", &["name"]),
                other => self.content(value, other, FIELDS),
            }
        }
    }

    fn result(&mut self, result: &mut Value) {
        let Value::Object(object) = result else {
            return self.content(result, "", &[]);
        };
        self.keys(object);
        for (name, value) in object.iter_mut() {
            match name.as_str() {
                own if OWN_RESULTS.contains(&own) => {}
                "_meta" => self.meta(value),
                other => self.content(value, other, FIELDS),
            }
        }
    }

    fn error(&mut self, error: &mut Value) {
        let Value::Object(object) = error else {
            return self.content(error, "", &[]);
        };
        self.keys(object);
        for (name, value) in object.iter_mut() {
            match name.as_str() {
                "message" => self.error_text(value),
                other => self.content(value, other, FIELDS),
            }
        }
    }

    fn meta(&mut self, meta: &mut Value) {
        let Value::Object(object) = meta else {
            return self.content(meta, "", &[]);
        };
        self.keys(object);
        for (name, value) in object.iter_mut() {
            let is_own = name == "progressToken" || name.starts_with("io.modelcontextprotocol/");
            if !is_own {
                self.content(value, "", &[]);
            }
        }
    }

    /// Hides every text, but for symbols in the fields named `kept`. `field`: where `value` lies.
    fn content(&mut self, value: &mut Value, field: &str, kept: &[&str]) {
        match value {
            Value::String(text) => match field {
                "reason" if kept.contains(&"field") => self.error_text(value),
                "uri" => self.uri(text),
                field if kept.contains(&field) && is_symbol(text) => {}
                _ => self.hide(text),
            },
            Value::Array(items) => {
                for item in items {
                    self.content(item, field, kept);
                }
            }
            Value::Object(object) => {
                self.keys(object);
                for (name, value) in object.iter_mut() {
                    self.content(value, name, kept);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Hides names of fields that are none.
    fn keys(&mut self, object: &mut Map<String, Value>) {
        if object.keys().all(|name| is_symbol(name)) {
            return;
        }
        self.has_erased = true;
        let named = std::mem::take(object).into_iter().enumerate();
        *object = named
            .map(|(i, (name, value))| {
                let name = if is_symbol(&name) {
                    name
                } else {
                    format!("{} #{i}", mask(&name))
                };
                (name, value)
            })
            .collect();
    }

    fn symbol(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if is_symbol(text) => {}
            other => self.content(other, "", &[]),
        }
    }

    /// Keeps the uris of notes and of the server, which hold ids only.
    fn uri(&mut self, uri: &mut String) {
        let is_ours = ["note://", "pkm://"]
            .iter()
            .any(|scheme| uri.starts_with(scheme));
        if !(is_ours && is_symbol(uri)) {
            self.hide(uri);
        }
    }

    /// Keeps an error message without what it quotes.
    fn error_text(&mut self, value: &mut Value) {
        let Value::String(text) = value else {
            return self.content(value, "", &[]);
        };
        let shown = without_quotes(text);
        let is_foreign = |c: char| !c.is_ascii() && c.is_alphanumeric();
        if shown.chars().count() > MAX_ERROR_CHARS || shown.chars().any(is_foreign) {
            self.hide(text);
        } else if shown != *text {
            self.has_erased = true;
            *text = shown;
        }
    }

    fn hide(&mut self, text: &mut String) {
        if !text.is_empty() {
            self.has_erased = true;
            *text = mask(text);
        }
    }
}

/// Whether `text` can only be a name that a program gave.
fn is_symbol(text: &str) -> bool {
    text.len() <= MAX_SYMBOL_CHARS
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-./:{}+$".contains(&byte))
}

/// `text` with what is in quotation marks hidden. In backticks a name may stay: that is how fields
/// are told.
fn without_quotes(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let close = match c {
            '"' | '`' => Some(c),
            '“' => Some('”'),
            '‘' => Some('’'),
            // Not the apostrophe of `can't`.
            '\'' if !before.is_alphanumeric() => Some('\''),
            _ => None,
        };
        before = c;
        shown.push(c);
        rest = after;
        let Some(close) = close else { continue };
        let first = after.find(close).unwrap_or(after.len());
        let end = if c == '`' && is_symbol(&after[..first]) {
            shown.push_str(&after[..first]);
            first
        } else {
            // Up to the last mark, for what is quoted may hold marks, or to the end.
            let last = after.rfind(close).unwrap_or(after.len());
            if last > 0 {
                shown.push_str(&mask(&after[..last]));
            }
            last
        };
        rest = &after[end..];
        if rest.starts_with(close) {
            shown.push(close);
            rest = &rest[close.len_utf8()..];
        }
        before = close;
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_the_user_are_hidden_and_what_a_program_says_is_kept() {
        let check = |before: Value, after: Value| {
            let mut redacted = before.clone();
            let has_erased = message(&mut redacted, Redaction::NoteText);
            assert_eq!(redacted, after);
            assert_eq!(has_erased, before != after);
            let mut kept = before.clone();
            assert!(!message(&mut kept, Redaction::None));
            assert_eq!(kept, before);
        };
        let call = |params: Value| json!({"jsonrpc": "2.0", "id": "a b", "method": "tools/call", "params": params});
        check(
            call(
                json!({"name": "add_note", "_meta": {"progressToken": "t 1", "mine": "비밀"}, "arguments":
                {"title": "백김치", "content": "", "tags": ["음식", "x"], "id": 3, "mode": "vector", "replace": {"find": "a", "with": "b"}, "q": "hunter2", "비밀 이름": true}}),
            ),
            call(
                json!({"name": "add_note", "_meta": {"progressToken": "t 1", "mine": "[2 chars]"}, "arguments":
                {"title": "[3 chars]", "content": "", "tags": ["[2 chars]", "[1 chars]"], "id": 3, "mode": "vector", "replace": {"find": "[1 chars]", "with": "[1 chars]"}, "q": "[7 chars]", "[5 chars] #7": true}}),
            ),
        );
        // Put into the wrong place, a text is still one.
        check(
            call(json!({"name": "search_notes", "query": "월급"})),
            call(json!({"name": "search_notes", "query": "[2 chars]"})),
        );
        check(call(json!(["월급"])), call(json!(["[2 chars]"])));
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
        check(
            result(
                json!({"content": [{"type": "text", "text": "안녕"}], "isError": false, "structuredContent":
                {"matches": [{"id": "12", "title": "t", "lines": [1, 2], "score": 0.5}], "index": {"state": "partial", "reason": "the model \"내 모델\" is `loading`"}}}),
            ),
            result(
                json!({"content": [{"type": "text", "text": "[2 chars]"}], "isError": false, "structuredContent":
                {"matches": [{"id": "12", "title": "[1 chars]", "lines": [1, 2], "score": 0.5}], "index": {"state": "partial", "reason": "the model \"[4 chars]\" is `loading`"}}}),
            ),
        );
        check(
            result(
                json!({"contents": [{"uri": "note://3", "mimeType": "text/markdown", "text": "x"}, {"uri": "file:///home/me/diary.md", "blob": "eA=="}]}),
            ),
            result(
                json!({"contents": [{"uri": "note://3", "mimeType": "text/markdown", "text": "[1 chars]"}, {"uri": "[24 chars]", "blob": "[4 chars]"}]}),
            ),
        );
        check(
            result(
                json!({"resources": [{"uri": "note://3", "name": "n", "title": "t", "description": "d", "size": 5}], "nextCursor": "c"}),
            ),
            result(
                json!({"resources": [{"uri": "note://3", "name": "[1 chars]", "title": "[1 chars]", "description": "[1 chars]", "size": 5}], "nextCursor": "[1 chars]"}),
            ),
        );
        check(
            result(
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}], "description": "d"}),
            ),
            result(
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": "[1 chars]"}}], "description": "[1 chars]"}),
            ),
        );
        check(
            result(json!({"completion": {"values": ["내 노트"], "total": 1}})),
            result(json!({"completion": {"values": ["[4 chars]"], "total": 1}})),
        );
        check(
            result(json!({"action": "accept", "content": {"answer": "yes"}})),
            result(json!({"action": "accept", "content": {"answer": "[3 chars]"}})),
        );
        let tools = result(
            json!({"tools": [{"name": "t", "description": "any text", "inputSchema": {"type": "object"}}]}),
        );
        check(tools.clone(), tools);
    }

    #[test]
    fn other_messages_tell_nothing_either() {
        let check = |mut before: Value, after: Value| {
            message(&mut before, Redaction::NoteText);
            assert_eq!(before, after);
        };
        check(
            json!([{"method": "notifications/progress", "params": {"progressToken": 1, "progress": 2, "message": "embedding “diary”"}}]),
            json!([{"method": "notifications/progress", "params": {"progressToken": 1, "progress": 2, "message": "[17 chars]"}}]),
        );
        check(
            json!({"method": "completion/complete", "params": {"ref": {"type": "ref/prompt", "name": "weekly_review"}, "argument": {"name": "topic", "value": "연봉"}}}),
            json!({"method": "completion/complete", "params": {"ref": {"type": "ref/prompt", "name": "weekly_review"}, "argument": {"name": "topic", "value": "[2 chars]"}}}),
        );
        check(
            json!({"method": "elicitation/create", "params": {"message": "delete “x”?", "mode": "form"}}),
            json!({"method": "elicitation/create", "params": {"message": "[11 chars]", "mode": "form"}}),
        );
        check(
            json!({"method": "내 비밀", "extra": {"a": "b"}}),
            json!({"method": "[4 chars]", "extra": {"a": "[1 chars]"}}),
        );
        check(json!("text"), json!("[4 chars]"));
        check(
            json!({"id": 1, "error": {"code": -32602, "message": "`limit` is 500", "data": {"field": "limit", "reason": "invalid type: string \"a \"b\" c\", expected u32", "uri": "file:///x", "note": "n"}}}),
            json!({"id": 1, "error": {"code": -32602, "message": "`limit` is 500", "data": {"field": "limit", "reason": "invalid type: string \"[7 chars]\", expected u32", "uri": "[9 chars]", "note": "[1 chars]"}}}),
        );
    }

    #[test]
    fn an_error_message_is_told_without_what_it_quotes() {
        let check = |before: &str, after: &str| {
            let mut value = json!({"error": {"message": before}});
            message(&mut value, Redaction::NoteText);
            assert_eq!(value["error"]["message"], after, "{before}");
        };
        check("`title` is blank", "`title` is blank");
        check("unknown field `내 것`", "unknown field `[3 chars]`");
        check("can't read 'my diary'", "can't read '[8 chars]'");
        check("cannot read \"my diary", "cannot read \"[8 chars]");
        check("노트가 없습니다", "[8 chars]");
        check(&"x ".repeat(101), "[202 chars]");
    }
}
