//! Front matter and titles of Markdown notes.
