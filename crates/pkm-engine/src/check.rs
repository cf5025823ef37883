//! Whether what a note is to be made of is in order.

use crate::Error;

/// The longest title, in characters.
pub(crate) const MAX_TITLE_CHARS: usize = 500;
/// The largest note, in bytes.
pub const MAX_CONTENT_BYTES: usize = 16 << 20;
/// The most tags on a note.
pub(crate) const MAX_TAGS: usize = 100;
/// The longest tag, in characters.
pub(crate) const MAX_TAG_CHARS: usize = 200;
/// The longest folder path, in characters.
pub(crate) const MAX_FOLDER_CHARS: usize = 1_000;

pub(crate) fn checked_title(title: &str) -> Result<String, Error> {
    let title = title.trim();
    if title.is_empty() {
        return Err(Error::invalid("title", "is blank; give the note a name"));
    }
    if title.chars().any(char::is_control) {
        return Err(Error::invalid(
            "title",
            "holds a line break or control character; use one line",
        ));
    }
    if title.chars().count() > MAX_TITLE_CHARS {
        return Err(Error::invalid(
            "title",
            format!("is longer than {MAX_TITLE_CHARS} characters"),
        ));
    }
    Ok(title.to_owned())
}

pub(crate) fn checked_content(field: &'static str, content: String) -> Result<String, Error> {
    if content.len() > MAX_CONTENT_BYTES {
        return Err(Error::invalid(
            field,
            format!(
                "makes a note of {} bytes; the most is {MAX_CONTENT_BYTES}",
                content.len()
            ),
        ));
    }
    Ok(content)
}

pub(crate) fn checked_tags(tags: &[String]) -> Result<Vec<String>, Error> {
    if tags.len() > MAX_TAGS {
        return Err(Error::invalid(
            "tags",
            format!("are {}; the most is {MAX_TAGS}", tags.len()),
        ));
    }
    let mut checked: Vec<String> = Vec::with_capacity(tags.len());
    for tag in tags {
        let tag = tag.trim().trim_start_matches('#');
        checked_name("tags", tag, MAX_TAG_CHARS)?;
        if tag.is_empty() || tag.contains(',') {
            return Err(Error::invalid(
                "tags",
                format!("hold `{tag}`, which is blank or has a comma"),
            ));
        }
        if !checked.iter().any(|known| known == tag) {
            checked.push(tag.to_owned());
        }
    }
    Ok(checked)
}

/// A folder without slashes at its ends; `a/b` and `/a//b/` are the same.
pub(crate) fn checked_folder(folder: &str) -> Result<String, Error> {
    checked_name("folder", folder, MAX_FOLDER_CHARS)?;
    let parts: Vec<&str> = folder
        .split('/')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        return Err(Error::invalid(
            "folder",
            "holds `.` or `..`; name it from the root, as in `work/meetings`",
        ));
    }
    Ok(parts.join("/"))
}

fn checked_name(field: &'static str, name: &str, max_chars: usize) -> Result<(), Error> {
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            "holds a line break or control character",
        ));
    }
    if name.chars().count() > max_chars {
        return Err(Error::invalid(
            field,
            format!("is longer than {max_chars} characters"),
        ));
    }
    Ok(())
}
