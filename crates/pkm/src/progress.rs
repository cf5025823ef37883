//! How far long work has come: a bar on a terminal, silence elsewhere. Always on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What the bar counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Things,
    Bytes,
}

/// A bar, or nothing where stderr is no terminal.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    pub(crate) fn new(verb: &'static str, unit: Unit) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
            let template = match unit {
                Unit::Things => "{prefix} [{bar:24}] {human_pos}/{human_len} {eta:>4} {wide_msg}",
                Unit::Bytes => {
                    "{prefix} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta:>4} {wide_msg}"
                }
            };
            bar.set_style(
                ProgressStyle::with_template(template)
                    .expect("the templates above are valid")
                    .progress_chars("=> "),
            );
            bar.set_prefix(verb);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self {
            bar,
            started: Instant::now(),
        }
    }

    pub(crate) fn set(&self, done: u64, total: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(crate::out::plain(message));
        }
    }

    /// Takes the bar away and gives the time that has passed.
    pub(crate) fn finish(self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.started.elapsed()
    }
}

/// `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else if seconds < 3600 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_in_the_nearest_unit() {
        let check = |millis, text: &str| assert_eq!(show(Duration::from_millis(millis)), text);
        check(0, "0.0 s");
        check(12_340, "12.3 s");
        check(245_000, "4 min 05 s");
        check(7_380_000, "2 h 03 min");
    }
}
