//! The control page (the control plane's numbers) and the counters file (ours).

use crate::error::{Error, Result};
use crate::map::{Mapping, take_pages};
use shm_abi::{
    CONTROL_MAGIC, COUNTERS_MAGIC, ControlPage, CountersHeader, LAYOUT_HASH, PAGE_SIZE,
    REFUSED_ENTRIES, Refused, SourceCounters, SourceState, WorkerCounters,
};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The control page, mapped for reading. Cheap to clone; shared by all workers.
#[derive(Clone)]
pub struct Control(Arc<Mapping>);

impl Control {
    /// Maps the page that the control plane made.
    pub fn open(path: &Path, journal_id: [u8; 16]) -> Result<Control> {
        let file = OpenOptions::new()
            .read(true)
            .open(path)
            .map_err(|source| Error::Kernel {
                doing: "open the control page",
                source,
            })?;
        let length = file
            .metadata()
            .map_err(|source| Error::Kernel {
                doing: "look at the control page",
                source,
            })?
            .len();
        if length < PAGE_SIZE {
            return Err(Error::Corrupt {
                word: "control page size",
                value: length,
            });
        }
        let control = Control(Arc::new(Mapping::of(&file, PAGE_SIZE as usize, true)?));
        let page = control.page();
        for (what, found, expected) in [
            ("control page magic", page.magic(), CONTROL_MAGIC),
            ("control page layout", page.layout_hash(), LAYOUT_HASH),
            (
                "control page journal",
                word(page.journal_id()),
                word(journal_id),
            ),
        ] {
            if found != expected {
                return Err(Error::Foreign {
                    what,
                    found,
                    expected,
                });
            }
        }
        Ok(control)
    }

    /// The words.
    pub fn page(&self) -> &ControlPage {
        // SAFETY: the mapping holds one ControlPage and all its fields are atomics.
        unsafe { &*self.0.at(0).cast::<ControlPage>() }
    }
}

fn word(id: [u8; 16]) -> u64 {
    u64::from_le_bytes(id[..8].try_into().expect("eight of sixteen bytes"))
}

/// What a new counters file is.
#[derive(Clone, Debug)]
pub struct CountersOptions {
    /// Where to make it; on tmpfs.
    pub path: PathBuf,
    /// Which data plane.
    pub generation: u32,
    /// How many worker threads.
    pub workers: u32,
    /// How many source slots each has.
    pub sources: u32,
}

/// The counters file of this process. Cheap to clone; each worker writes its own part.
#[derive(Clone)]
pub struct Counters {
    map: Arc<Mapping>,
    workers: usize,
    sources: usize,
}

impl Counters {
    /// Makes the file and maps it; the magic is written last.
    pub fn create(options: &CountersOptions) -> Result<Counters> {
        let (workers, sources) = (options.workers as usize, options.sources as usize);
        let length = refused_at(workers, sources, workers);
        let length = length.next_multiple_of(PAGE_SIZE as usize);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&options.path)
            .map_err(|source| Error::Kernel {
                doing: "create the counters file",
                source,
            })?;
        let doing = "take the memory of the counters on tmpfs";
        let map = take_pages(&file, length as u64, doing)
            .and_then(|()| Mapping::of(&file, length, false))
            .inspect_err(|_| {
                let _ = std::fs::remove_file(&options.path); // it has no magic: nobody uses it
            })?;
        let map = Arc::new(map);
        let counters = Counters {
            map,
            workers,
            sources,
        };
        let header = counters.header();
        header.store_layout_hash(LAYOUT_HASH);
        header.store_generation(options.generation);
        header.store_pid(std::process::id());
        header.store_workers(options.workers);
        header.store_sources(options.sources);
        header.store_magic(COUNTERS_MAGIC);
        Ok(counters)
    }

    /// The words of the whole process.
    pub fn header(&self) -> &CountersHeader {
        // SAFETY: the file starts with one CountersHeader and all its fields are atomics.
        unsafe { &*self.map.at(0).cast::<CountersHeader>() }
    }

    /// One worker's words; only that worker adds to them.
    pub fn worker(&self, worker: usize) -> &WorkerCounters {
        assert!(worker < self.workers, "worker {worker} of {}", self.workers);
        let at = size_of::<CountersHeader>() + worker * size_of::<WorkerCounters>();
        // SAFETY: inside the file by the check above; all fields are atomics.
        unsafe { &*self.map.at(at).cast::<WorkerCounters>() }
    }

    /// One worker's words for one source slot.
    pub fn source(&self, worker: usize, slot: usize) -> &SourceCounters {
        assert!(worker < self.workers && slot < self.sources);
        let at = size_of::<CountersHeader>()
            + self.workers * size_of::<WorkerCounters>()
            + (worker * self.sources + slot) * size_of::<SourceCounters>();
        // SAFETY: inside the file by the check above; all fields are atomics.
        unsafe { &*self.map.at(at).cast::<SourceCounters>() }
    }

    /// The words of a source slot, of all workers.
    pub fn state(&self, slot: usize) -> &SourceState {
        assert!(slot < self.sources);
        let at = states_at(self.workers, self.sources) + slot * size_of::<SourceState>();
        // SAFETY: inside the file by the check above; all fields are atomics.
        unsafe { &*self.map.at(at).cast::<SourceState>() }
    }

    /// Adds an entry to the worker's ring of refusals, over the oldest one; only that worker does.
    pub fn push_refused(&self, worker: usize, entry: &Refused) {
        let words = self.worker(worker);
        let place = (words.refused_entries() % REFUSED_ENTRIES) as usize;
        let at = refused_at(self.workers, self.sources, worker) + place * size_of::<Refused>();
        // SAFETY: inside the file, and nobody of this process reads it. The control plane copies an
        // entry and looks afterwards whether it was written over meanwhile.
        unsafe { self.map.at(at).cast::<Refused>().write(*entry) };
        // Whoever sees the count sees the entry.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        words.add_refused_entries(1);
    }
}

/// Where the words of the source slots begin: behind the counts of each worker and slot.
fn states_at(workers: usize, sources: usize) -> usize {
    size_of::<CountersHeader>()
        + workers * size_of::<WorkerCounters>()
        + workers * sources * size_of::<SourceCounters>()
}

/// Where a worker's ring of refusals begins; that of the worker after the last: the file's end.
fn refused_at(workers: usize, sources: usize, worker: usize) -> usize {
    let ring = REFUSED_ENTRIES as usize * size_of::<Refused>();
    states_at(workers, sources) + sources * size_of::<SourceState>() + worker * ring
}
