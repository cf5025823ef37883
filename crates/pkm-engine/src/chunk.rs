//! Cuts a note into passages along its Markdown structure.
