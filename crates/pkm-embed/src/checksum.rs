//! Checksums of files, as hex.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

const BLOCK_BYTES: usize = 1 << 20;

/// SHA-256 of a file, lower-case hex.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    digest::<Sha256>(path, Sha256::new())
}

/// The id git gives a file's content: SHA-1 over a header with its length and the content.
/// The hub announces it for files that are not in large file storage.
pub(crate) fn git_blob_sha1(path: &Path) -> io::Result<String> {
    let mut digest = Sha1::new();
    Digest::update(&mut digest, format!("blob {}\0", path.metadata()?.len()));
    self::digest(path, digest)
}

/// Lower-case hex digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest<D: Digest>(path: &Path, mut digest: D) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&digest.finalize())),
            n_read => digest.update(&block[..n_read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_git_and_sha256sum_print() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "hello\n").unwrap();
        assert_eq!(
            sha256(&path).unwrap(),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
        assert_eq!(
            git_blob_sha1(&path).unwrap(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }
}
