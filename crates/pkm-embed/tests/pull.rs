//! Fetching models, from a stand-in for the hub on this machine.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

#[allow(dead_code, reason = "the tests of the embedding server use the rest")]
#[path = "common/web.rs"]
mod web;

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pkm_embed::{Damage, Error, Manifest, ModelFolder, ModelState, PullOptions, PullProgress};
use sha2::{Digest, Sha256};
use web::{Request, Web};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// How the stand-in misbehaves with the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// It does not.
    None,
    /// It closes the connection after this many bytes, the first so many times.
    BreaksAfter { n_bytes: usize, n_times: usize },
    /// It sends the whole file, whatever part was asked for.
    IgnoresRanges,
    /// It sends other bytes than it announces.
    Corrupt,
    /// It accepts connections and says nothing.
    Silent,
    /// It names the file so that it would land elsewhere.
    EscapingMark,
}

/// The files of the hub with the model `owner/tiny`, behind one redirect as on the real one.
struct Hub {
    web: Web,
    state: Arc<Mutex<State>>,
}

struct State {
    files: HashMap<&'static str, Vec<u8>>,
    fault: Fault,
    n_broken: usize,
    /// Path and first byte of every request for content.
    requests: Vec<(String, usize)>,
}

impl Hub {
    fn start(fault: Fault) -> Hub {
        let files = HashMap::from([
            ("config.json", b"{}\n".to_vec()),
            ("tokenizer.json", b"{\"version\": \"1.0\"}\n".to_vec()),
            ("sub/model.safetensors", weights()),
        ]);
        let state = State {
            files,
            fault,
            n_broken: 0,
            requests: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let served = Arc::clone(&state);
        let web = Web::start(
            None,
            Arc::new(move |request, connection| {
                answer(request, connection, &served);
                None
            }),
        );
        Hub { web, state }
    }

    fn options(&self) -> PullOptions {
        PullOptions {
            endpoint: self.web.endpoint(),
            stall_timeout: Duration::from_secs(20),
        }
    }

    fn set_fault(&self, fault: Fault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// First bytes of the requests for more than a byte of the weights.
    fn weight_requests(&self) -> Vec<usize> {
        let state = self.state.lock().unwrap();
        let of_weights = state
            .requests
            .iter()
            .filter(|(path, _)| path.ends_with("safetensors"));
        of_weights.map(|(_, start)| *start).collect()
    }
}

fn weights() -> Vec<u8> {
    (0..300_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

fn answer(request: &Request, connection: &mut TcpStream, state: &Mutex<State>) -> Option<()> {
    let path = &request.path;
    let asked = request.headers.get("range");
    let range = match asked.and_then(|range| range.strip_prefix("bytes=")) {
        Some(range) => {
            let (from, to) = range.split_once('-')?;
            Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()))
        }
        None => None,
    };
    let mut state = state.lock().unwrap();
    if state.fault == Fault::Silent {
        drop(state);
        // Held open until the client has had enough.
        let _ = std::io::copy(connection, &mut std::io::sink());
        return None;
    }
    let name = path.rsplit_once(&format!("/{COMMIT}/"))?.1;
    let Some((name, content)) = state
        .files
        .get_key_value(name)
        .map(|(name, content)| (*name, content.clone()))
    else {
        return connection
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .ok();
    };
    let is_weights = name.ends_with("safetensors");
    let mark = match state.fault {
        Fault::EscapingMark => "../../../escaped".to_owned(),
        _ if is_weights => hex(&Sha256::digest(&content)),
        _ => git_id(&content),
    };
    if is_weights && !path.starts_with("/cdn/") {
        return write!(
            connection,
            "HTTP/1.1 302 Found\r\nLocation: http://{}/cdn{path}\r\nX-Linked-Etag: \"{mark}\"\r\n\
             ETag: \"other\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n",
            connection.local_addr().ok()?
        )
        .ok();
    }
    let (start, end) = match range {
        Some((start, end)) => (start, end.map_or(content.len(), |end| end + 1)),
        None => (0, content.len()),
    };
    let end = end.min(content.len());
    let is_probe = end - start <= 1 && content.len() > 1;
    let (mut body, status) = match state.fault {
        Fault::IgnoresRanges if is_weights && !is_probe => (content.clone(), "200 OK"),
        _ => (content[start..end].to_vec(), "206 Partial Content"),
    };
    if !is_probe {
        state.requests.push((path.clone(), start));
        if is_weights && state.fault == Fault::Corrupt {
            body[0] ^= 1;
        }
    }
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{}\r\n\
         ETag: \"{mark}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len(),
        end - 1,
        content.len()
    )
    .ok()?;
    if let Fault::BreaksAfter { n_bytes, n_times } = state.fault
        && is_weights
        && !is_probe
        && state.n_broken < n_times
    {
        state.n_broken += 1;
        body.truncate(n_bytes);
    }
    drop(state);
    connection.write_all(&body).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git_id(content: &[u8]) -> String {
    let mut blob = format!("blob {}\0", content.len()).into_bytes();
    blob.extend(content);
    hex(&sha1::Sha1::digest(&blob))
}

/// The manifest of the stand-in's model; `config.json` is not pinned.
fn manifest() -> Manifest {
    let files = Hub::start(Fault::None);
    let files = &files.state.lock().unwrap().files;
    let pinned = |name: &str| {
        let content = &files[name];
        let sha256 = hex(&Sha256::digest(content));
        format!(
            "name = \"{name}\"\nsize_bytes = {}\nsha256 = \"{sha256}\"\n",
            content.len()
        )
    };
    Manifest::parse(&format!(
        "name = \"tiny\"\ndescription = \"\"\narchitecture = \"bert\"\nrevision = \"{COMMIT}\"\n\
         licence = \"MIT\"\ndimension = 8\nwindow = 16\npooling = \"mean\"\nlanguages = []\n\
         prefixes = {{ query = \"\", passage = \"\" }}\n\
         [[files]]\nname = \"config.json\"\n[[files]]\n{}[[files]]\n{}\
         [[sources]]\nkind = \"hub\"\nrepository = \"owner/tiny\"\n",
        pinned("tokenizer.json"),
        pinned("sub/model.safetensors"),
    ))
    .unwrap()
}

fn pull(folder: &ModelFolder, options: PullOptions) -> Result<Vec<PullProgress>, Error> {
    let mut seen = Vec::new();
    folder
        .pull(&manifest(), options, &mut |progress| seen.push(progress))
        .map(|()| seen)
}

fn check_installed(folder: &ModelFolder) {
    folder.verify(&manifest()).unwrap();
    assert!(matches!(folder.state(&manifest()), ModelState::Installed));
    let content = fs::read(folder.path(&manifest()).join("sub/model.safetensors")).unwrap();
    assert!(content == weights());
    // Nothing but the model and its lock stays.
    let mut left: Vec<_> = fs::read_dir(folder.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, [".tiny.lock", "tiny"]);
}

fn words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", words(source)),
        None => error.to_string(),
    }
}

#[test]
fn a_pull_brings_every_file_and_says_how_far_it_is() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path().join("models"));
    assert!(matches!(folder.state(&manifest()), ModelState::Missing));
    let seen = pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
    assert!(seen.is_sorted_by_key(|progress| progress.done_bytes));
    let last = seen.last().unwrap();
    assert_eq!(last.done_bytes, last.total_bytes);
    assert!(seen.iter().any(|progress| {
        progress.file == "sub/model.safetensors" && progress.done_bytes < progress.total_bytes
    }));
}

#[test]
fn a_model_that_is_here_is_not_fetched_again() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    pull(&folder, hub.options()).unwrap();
    let before = hub.state.lock().unwrap().requests.len();
    assert_eq!(pull(&folder, hub.options()).unwrap(), []);
    assert_eq!(hub.state.lock().unwrap().requests.len(), before);
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    let fault = Fault::BreaksAfter {
        n_bytes: 500_000,
        n_times: 2,
    };
    let (hub, root) = (Hub::start(fault), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
    assert_eq!(hub.weight_requests(), [0, 500_000, 1_000_000]);
}

#[test]
fn a_pull_that_failed_is_taken_up_by_the_next() {
    let fault = Fault::BreaksAfter {
        n_bytes: 1000,
        n_times: usize::MAX,
    };
    let (hub, root) = (Hub::start(fault), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    let error = pull(&folder, hub.options()).unwrap_err();
    assert!(matches!(&error, Error::Download { file, .. } if file == "sub/model.safetensors"));
    assert!(matches!(folder.state(&manifest()), ModelState::Missing));
    let n_before = hub.weight_requests().len();
    hub.set_fault(Fault::None);
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
    assert_eq!(hub.weight_requests()[n_before..], [1000 * n_before]);
    // Of the other files, the pinned one was kept.
    let state = hub.state.lock().unwrap();
    let tokenizers = state
        .requests
        .iter()
        .filter(|(path, _)| path.ends_with("tokenizer.json"));
    assert_eq!(tokenizers.count(), 1);
}

#[test]
fn a_hub_that_cannot_resume_is_asked_for_the_whole_file() {
    let fault = Fault::BreaksAfter {
        n_bytes: 1000,
        n_times: usize::MAX,
    };
    let (hub, root) = (Hub::start(fault), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    pull(&folder, hub.options()).unwrap_err();
    hub.set_fault(Fault::IgnoresRanges);
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_installed() {
    let (hub, root) = (Hub::start(Fault::Corrupt), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    let error = pull(&folder, hub.options()).unwrap_err();
    let Error::Damaged {
        damage: Damage::Checksum {
            algorithm: "sha256",
            ..
        },
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(matches!(folder.state(&manifest()), ModelState::Missing));
    hub.set_fault(Fault::None);
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
}

#[test]
fn a_file_without_a_pinned_checksum_is_held_against_the_mark_of_the_hub() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    let mut unpinned = manifest();
    for file in &mut unpinned.files {
        (file.size_bytes, file.sha256) = (None, None);
    }
    hub.set_fault(Fault::Corrupt);
    let error = folder
        .pull(&unpinned, hub.options(), &mut |_| {})
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                damage: Damage::Checksum { .. },
                ..
            }
        ),
        "{error}"
    );
    hub.set_fault(Fault::None);
    folder.pull(&unpinned, hub.options(), &mut |_| {}).unwrap();
    check_installed(&folder);
}

#[test]
fn a_hub_that_is_not_there_gives_one_sentence_with_the_model_and_the_way_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let root = tempfile::tempdir().unwrap();
    let options = PullOptions {
        endpoint: endpoint.clone(),
        ..PullOptions::new()
    };
    let error = words(&pull(&ModelFolder::new(root.path()), options).unwrap_err());
    let place = root.path().join("tiny").display().to_string();
    for part in [
        "`tiny`",
        &endpoint,
        "pkm model pull tiny",
        &place,
        "refused",
    ] {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_hub_that_says_nothing_is_given_up() {
    let (hub, root) = (Hub::start(Fault::Silent), tempfile::tempdir().unwrap());
    let options = PullOptions {
        stall_timeout: Duration::from_millis(50),
        ..hub.options()
    };
    let error = words(&pull(&ModelFolder::new(root.path()), options).unwrap_err());
    assert!(error.contains("no answer for 50ms"), "{error}");
}

#[test]
fn a_file_that_the_hub_lacks_is_named() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    hub.state.lock().unwrap().files.remove("tokenizer.json");
    let error = words(&pull(&ModelFolder::new(root.path()), hub.options()).unwrap_err());
    assert!(
        error.contains("`tokenizer.json`") && error.contains("404"),
        "{error}"
    );
}

#[test]
fn marks_of_the_hub_cannot_lead_out_of_the_folder() {
    let (hub, root) = (
        Hub::start(Fault::EscapingMark),
        tempfile::tempdir().unwrap(),
    );
    let folder = ModelFolder::new(root.path().join("a/b/c/models"));
    let error = words(&pull(&folder, hub.options()).unwrap_err());
    assert!(error.contains("../../../escaped"), "{error}");
    let escaped = |folder: &Path| {
        fs::read_dir(folder).unwrap().any(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("escaped")
        })
    };
    for folder in folder
        .root()
        .ancestors()
        .take_while(|folder| folder.starts_with(root.path()))
    {
        assert!(!escaped(folder), "{}", folder.display());
    }
}

#[test]
fn a_damaged_model_is_replaced() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    pull(&folder, hub.options()).unwrap();
    fs::write(
        folder.path(&manifest()).join("sub/model.safetensors"),
        "short",
    )
    .unwrap();
    assert!(matches!(folder.state(&manifest()), ModelState::Damaged(_)));
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
}

#[test]
fn a_file_that_no_manifest_pins_is_pulled_again_when_it_was_damaged() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    pull(&folder, hub.options()).unwrap();
    let config = folder.path(&manifest()).join("config.json");
    fs::write(&config, "[]\n").unwrap();
    let error = folder.verify(&manifest()).unwrap_err().to_string();
    assert!(error.contains("config.json` has sha256"), "{error}");
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
    assert_eq!(fs::read(config).unwrap(), b"{}\n");
}

#[test]
fn a_manifest_that_the_user_wrote_outlives_a_pull() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    let place = folder.path(&manifest());
    fs::create_dir(&place).unwrap();
    fs::write(place.join("manifest.toml"), "mine").unwrap();
    assert!(matches!(folder.state(&manifest()), ModelState::Missing));
    pull(&folder, hub.options()).unwrap();
    check_installed(&folder);
    assert_eq!(fs::read(place.join("manifest.toml")).unwrap(), b"mine");
}

#[test]
fn pulls_at_the_same_time_share_one_download() {
    let (hub, root) = (Hub::start(Fault::None), tempfile::tempdir().unwrap());
    let folder = ModelFolder::new(root.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pull(&folder, hub.options()).unwrap());
        }
    });
    check_installed(&folder);
    assert_eq!(hub.weight_requests(), [0]);
}

#[test]
fn a_model_that_is_not_on_the_hub_says_how_to_get_it() {
    let root = tempfile::tempdir().unwrap();
    let folder = ModelFolder::new(root.path());
    let q4 = Manifest::named("multilingual-e5-small-q4").unwrap();
    let error = folder
        .pull(q4, PullOptions::new(), &mut |_| {})
        .unwrap_err();
    let way = format!(
        "scripts/fetch-model {} --into {}",
        q4.name,
        root.path().display()
    );
    assert!(error.to_string().contains(&way), "{error}");
}
