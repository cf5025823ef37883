//! A web server on this machine, for tests of clients.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request, whole.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By name in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Writes the answer to a request; `None` ends the connection.
pub(crate) type Answer = dyn Fn(&Request, &mut TcpStream) -> Option<()> + Send + Sync;

/// The server; dropped, it is gone as a killed process is, with its connections.
pub(crate) struct Web {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    listening: Option<JoinHandle<()>>,
}

impl Web {
    /// At a free port, or at that of a server that was there before.
    pub(crate) fn start(at: Option<SocketAddr>, answer: Arc<Answer>) -> Web {
        let at = at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = TcpListener::bind(at).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let is_stopped = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Mutex::new(Vec::new()));
        let listening = std::thread::spawn({
            let (is_stopped, open) = (Arc::clone(&is_stopped), Arc::clone(&open));
            move || {
                for connection in listener.incoming() {
                    if is_stopped.load(Ordering::Acquire) {
                        return;
                    }
                    let connection = connection.expect("a connection");
                    let kept = connection.try_clone().expect("another handle");
                    open.lock().expect("no panic holding it").push(kept);
                    let answer = Arc::clone(&answer);
                    std::thread::spawn(move || {
                        // A client that hangs up early is part of the tests.
                        let _ = serve(&connection, &*answer);
                        let _ = connection.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Web {
            address,
            is_stopped,
            open,
            listening: Some(listening),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        // Wakes the listener, which then looks at the flag.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        for connection in self.open.lock().expect("no panic holding it").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn serve(connection: &TcpStream, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut writer = connection.try_clone().ok()?;
    loop {
        let request = read(&mut reader)?;
        answer(&request, &mut writer)?;
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        method,
        path,
        headers,
        body,
    })
}
