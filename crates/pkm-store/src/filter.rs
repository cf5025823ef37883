//! A filter as a condition of SQL.

use rusqlite::ToSql;

use crate::Filter;
use crate::key::{clean_folder, micros, text_key};

/// A condition on the note `n`, with its parameters.
pub(crate) struct Condition {
    pub(crate) sql: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Condition {
    /// `None` when the filter lets everything through.
    pub(crate) fn of(filter: &Filter) -> Option<Self> {
        let mut parts = Vec::new();
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        for tag in filter
            .tags
            .iter()
            .map(|tag| text_key(tag))
            .filter(|tag| !tag.is_empty())
        {
            parts.push("n.id IN (SELECT t.note_id FROM note_tag t WHERE t.tag_key = ?)".to_owned());
            values.push(Box::new(tag));
        }
        let folder = filter
            .folder
            .as_deref()
            .map(|folder| text_key(&clean_folder(folder)));
        if let Some(folder) = folder.filter(|folder| !folder.is_empty()) {
            // Everything that begins with "folder/" sorts below "folder0": '0' follows '/'.
            parts.push("(n.folder_key = ? OR (n.folder_key >= ? AND n.folder_key < ?))".to_owned());
            values.push(Box::new(folder.clone()));
            values.push(Box::new(format!("{folder}/")));
            values.push(Box::new(format!("{folder}0")));
        }
        if let Some(time) = filter.updated_after {
            parts.push("n.updated_at >= ?".to_owned());
            values.push(Box::new(micros(time)));
        }
        if let Some(time) = filter.updated_before {
            parts.push("n.updated_at < ?".to_owned());
            values.push(Box::new(micros(time)));
        }
        (!parts.is_empty()).then(|| Self {
            sql: parts.join(" AND "),
            values,
        })
    }

    /// The condition of a filter that may let everything through.
    pub(crate) fn of_any(filter: &Filter) -> Self {
        Self::of(filter).unwrap_or_else(|| Self {
            sql: "1".to_owned(),
            values: Vec::new(),
        })
    }

    pub(crate) fn params(&self) -> Vec<&dyn ToSql> {
        self.values.iter().map(|value| &**value).collect()
    }
}
