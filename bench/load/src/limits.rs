//! Every bound of the generator in one place.

use std::time::Duration;

/// Connections of one run; past this the generator, not the server, is measured.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Length of one run: a forgotten generator ends by itself.
pub const DURATION_MAX: Duration = Duration::from_secs(3600);
/// Requests of one run.
pub const REQUESTS_MAX: u64 = 500_000_000;
/// Steps of one `--rate` profile.
pub const STEPS_MAX: usize = 64;
/// Streams of one run.
pub const STREAMS_MAX: usize = 64;
/// How often one delivery is sent.
pub const TRIES_MAX: u64 = 100;
/// Wait before the next try of a delivery whose answer named none, or that had no answer.
pub const TRY_WAIT: Duration = Duration::from_secs(5);
/// How often the record notes the connections.
pub const PULSE_EVERY: Duration = Duration::from_millis(200);
/// Bytes of one body.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Distinct bodies that are signed ahead.
pub const BODIES_MAX: usize = 1024;
/// Bytes of one answer, head and body; a webhook acknowledgement is far smaller.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Wait before a lost connection is tried again, doubling from the first to the second.
pub const RECONNECT_WAIT: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(200));
/// Time for all connections to come up before the schedule starts.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often timeouts and lost connections are looked at.
pub const SWEEP_EVERY: Duration = Duration::from_millis(5);

const _: () = assert!(RECONNECT_WAIT.0.as_nanos() <= RECONNECT_WAIT.1.as_nanos());
const _: () = assert!(SWEEP_EVERY.as_nanos() <= CONNECT_TIMEOUT.as_nanos());
