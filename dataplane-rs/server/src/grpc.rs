//! The control plane's calls: hello, snapshots, drain, state, rare events.
//!
//! Served on a thread of its own; it never touches a worker's ring or lane. Workers take a config
//! up at their next turn, and a call waits until they have.

use crate::config::Config;
use crate::plane::Plane;
use shm_abi::LAYOUT_HASH;
use sluice_kernel::sys;
use sluice_proto as proto;
use sluice_proto::data_plane_server::{DataPlane, DataPlaneServer};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::{BroadcastStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// How long workers may take to accept under a new config.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);

/// The service.
pub struct Service {
    /// Shared with the workers.
    pub plane: Arc<Plane>,
    /// The journal that the lanes feed.
    pub journal_id: [u8; 16],
    /// The lanes, one per worker.
    pub lanes: Vec<[u8; 16]>,
    /// Whether the lanes are locked in memory.
    pub memory_locked: bool,
    /// What connections and waits go through: "io_uring" or "epoll".
    pub driver: &'static str,
    /// Why not io_uring; empty: it is.
    pub driver_reason: String,
    /// What the process took away from itself.
    pub sandbox: Vec<String>,
    /// What the host does not give of that, and why; empty: it gives all.
    pub sandbox_reason: String,
}

/// The control plane's socket with all that serving it takes, so that nothing has to be opened
/// when it begins.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::UnixListener,
}

impl Server {
    /// Binds the socket. Who connects waits until [`Server::serve`].
    pub fn bind(socket: &Path) -> std::io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(socket)?
        };
        Ok(Server { runtime, listener })
    }

    /// Serves on the calling thread until the process ends.
    pub fn serve(self, service: Service) -> Result<(), Box<dyn std::error::Error>> {
        let connections = UnixListenerStream::new(self.listener);
        self.runtime.block_on(
            tonic::transport::Server::builder()
                .add_service(DataPlaneServer::new(service))
                .serve_with_incoming(connections),
        )?;
        Ok(())
    }
}

#[tonic::async_trait]
impl DataPlane for Service {
    async fn hello(
        &self,
        request: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let asked = request.into_inner();
        if asked.layout_hash != LAYOUT_HASH {
            return Err(Status::failed_precondition(format!(
                "this data plane has layout {LAYOUT_HASH:#x}, the control plane {:#x}: \
                 programs of two versions",
                asked.layout_hash
            )));
        }
        if asked.journal_id != self.journal_id {
            return Err(Status::failed_precondition(
                "this data plane feeds another journal",
            ));
        }
        let config = self.plane.config();
        let lanes = self
            .lanes
            .iter()
            .enumerate()
            .map(|(worker, id)| proto::Lane {
                id: id.to_vec(),
                worker: worker as u32,
            });
        Ok(Response::new(proto::HelloReply {
            generation: self.plane.generation,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            layout_hash: LAYOUT_HASH,
            driver: self.driver.into(),
            driver_reason: self.driver_reason.clone(),
            lanes: lanes.collect(),
            config_version: config.version,
            accepting: config.version > 0 && self.plane.all_accept(config.version),
            draining: self.plane.draining().is_some(),
            memory_locked: self.memory_locked,
            sandbox: self.sandbox.clone(),
            sandbox_reason: self.sandbox_reason.clone(),
        }))
    }

    async fn apply(
        &self,
        request: Request<proto::Snapshot>,
    ) -> Result<Response<proto::ApplyReply>, Status> {
        let refused = |reason: String| {
            let config_version = self.plane.config().version;
            Ok(Response::new(proto::ApplyReply {
                accepted: false,
                reason,
                config_version,
            }))
        };
        let config = match Config::new(request.into_inner(), &self.plane.host()) {
            Ok(config) if config.version == 0 => return refused("config_version: 0".into()),
            Ok(config) => config,
            Err(reason) => return refused(reason),
        };
        if self.plane.draining().is_some() {
            return refused("this data plane is draining".into());
        }
        let version = config.version;
        self.plane.set_config(config);
        let until = tokio::time::Instant::now() + ACCEPT_PATIENCE;
        while !self.plane.all_accept(version) {
            if self.plane.draining().is_some() {
                return Err(Status::aborted("this data plane began to drain meanwhile"));
            }
            if tokio::time::Instant::now() > until {
                return Err(Status::deadline_exceeded(
                    "a worker does not take the config up",
                ));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Response::new(proto::ApplyReply {
            accepted: true,
            reason: String::new(),
            config_version: version,
        }))
    }

    async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.plane
            .drain(sys::boot_ns().saturating_add(request.into_inner().grace_ns));
        Ok(Response::new(proto::DrainReply {}))
    }

    async fn state(
        &self,
        _request: Request<proto::StateRequest>,
    ) -> Result<Response<proto::StateReply>, Status> {
        let config = self.plane.config();
        let header = self.plane.counters.header();
        let workers = (0..self.lanes.len()).map(|worker| {
            let counters = self.plane.counters.worker(worker);
            proto::WorkerState {
                worker: worker as u32,
                lane_position: counters.frame_bytes(),
                connections: counters.accepted().saturating_sub(counters.closed()),
            }
        });
        Ok(Response::new(proto::StateReply {
            accepting: config.version > 0 && self.plane.all_accept(config.version),
            draining: self.plane.draining().is_some(),
            config_version: config.version,
            connections: header.connections(),
            inflight: self.plane.slots.inflight(),
            workers: workers.collect(),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::DataPlaneEvent, Status>> + Send>>;

    async fn watch(
        &self,
        _request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let notices = BroadcastStream::new(self.plane.watch());
        let events = notices.filter_map(Result::ok).map(|notice| {
            Ok(proto::DataPlaneEvent {
                at_ns: sys::wall_ns() as i64,
                level: notice.level.into(),
                message: notice.message,
            })
        });
        Ok(Response::new(Box::pin(events)))
    }
}
