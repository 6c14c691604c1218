//! Listeners: who gets a connection, and that none is lost.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use sluice_kernel::sys::{EventFd, boot_ns};
use sluice_kernel::{Backend, Options, Share, Wait};

use super::world::{Client, End, Make, PATIENCE, World, small};

pub fn a_refused_connection_is_closed<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    world.book.refuse = true;
    let (_listener, address, _) = world.listen();
    let mut client = Client::connect(address);
    world.until("refused", |_| client.listen().end.is_some());
    assert_eq!(client.end, Some(End::Fin));
    assert_eq!(world.io.conns(), 0);
}

pub fn a_seat_over_the_limit_gives_the_socket_back<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&Options {
        conns_max: 2,
        ..small()
    }) else {
        return;
    };
    let mut world = World::echoing(io);
    let (_listener, address, _) = world.listen();
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
    world.until("all accepted", |world| world.book.accepted.len() == 3);
    assert_eq!(world.book.overfull.len(), 1);
    assert_eq!(world.io.conns(), 2);
    // The third is served as soon as a seat is free.
    let gone = *world.book.conns.keys().next().unwrap();
    world.io.close(gone, sluice_kernel::Close::Now);
    world.until_closed(gone);
    let socket = world.book.overfull.pop().unwrap();
    assert!(world.io.attach(socket).is_ok_and(|conn| {
        world.book.conns.insert(conn, Default::default());
        true
    }));
    clients[2].say(b"late");
    world.until("served", |_| clients[2].listen().heard == b"late");
}

pub fn accepted_sockets_inherit_the_listeners_options<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (listener, address, _) = world.listen();
    let (_plain, _) = world.connect(address);
    sluice_kernel::sys::set_nodelay(listener.as_fd()).unwrap();
    let (_eager, _) = world.connect(address);
    assert_eq!(world.book.nodelay, [false, true]);
}

pub fn a_paused_listener_leaves_connections_in_the_queue<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::echoing(io);
    let (listener, address, id) = world.listen();
    world.turn();
    world.io.accepting(id, false);
    for _ in 0..20 {
        world.turn();
    }
    let mut clients: Vec<_> = (0..5).map(|_| Client::connect(address)).collect();
    for _ in 0..20 {
        world.turn();
    }
    assert_eq!(world.book.accepted.len(), 0);
    assert_eq!(
        sluice_kernel::sys::accept_queue(listener.as_fd())
            .unwrap()
            .0,
        5
    );
    // Off and on within one turn, while the cancel is under way, ends in on.
    world.io.accepting(id, true);
    world.io.accepting(id, false);
    world.io.accepting(id, true);
    for client in &mut clients {
        client.say(b"x");
    }
    for client in &mut clients {
        world.until("served", |_| client.listen().heard == b"x");
    }
    assert_eq!(world.book.accepted.len(), 5);
}

/// Clients connect before, during and after the removal: each is either handed over before the
/// listener's last word, or still in the queue for the next generation. None disappears.
pub fn a_removed_listener_loses_no_connection<B: Backend>(make: &Make<B>) {
    for trial in 0..30 {
        let Some(io) = make(&small()) else { return };
        let mut world = World::new(io);
        world.book.keep = Some(Vec::new());
        let (listener, address, id) = world.listen();
        world.turn();
        let mut clients: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
        let rush = std::thread::spawn(move || {
            (0..20)
                .map(|_| Client::connect(address))
                .collect::<Vec<_>>()
        });
        for _ in 0..trial % 3 {
            world.turn();
        }
        world.io.unlisten(id);
        world.io.unlisten(id);
        world.until("listener closed", |world| {
            !world.book.listeners_closed.is_empty()
        });
        clients.extend(rush.join().unwrap());
        for _ in 0..3 {
            world.turn();
        }
        assert_eq!(world.book.listeners_closed, [(id, None)]);
        let served = world.book.keep.as_ref().unwrap().len();
        let waiting = sluice_kernel::sys::accept_queue(listener.as_fd())
            .unwrap()
            .0 as usize;
        assert_eq!(served + waiting, clients.len(), "trial {trial}");
    }
}

/// The order falls between two completions that are both there already.
pub fn a_listener_removed_in_a_callback_still_hands_over_the_rest<B: Backend>(make: &Make<B>) {
    for _ in 0..10 {
        let Some(io) = make(&small()) else { return };
        let mut world = World::new(io);
        world.book.unlisten_on_accept = true;
        let (listener, address, id) = world.listen();
        world.turn();
        let clients: Vec<_> = (0..8).map(|_| Client::connect(address)).collect();
        world.until("listener closed", |world| {
            !world.book.listeners_closed.is_empty()
        });
        for _ in 0..5 {
            world.turn();
        }
        assert_eq!(world.book.listeners_closed, [(id, None)]);
        // What comes now is the next generation's.
        let _late = Client::connect(address);
        for _ in 0..5 {
            world.turn();
        }
        let waiting = sluice_kernel::sys::accept_queue(listener.as_fd())
            .unwrap()
            .0 as usize;
        assert_eq!(world.book.accepted.len() + waiting, clients.len() + 1);
        assert_eq!(world.book.conns.len(), world.book.accepted.len());
        assert_eq!(world.io.stats().stale, 0);
    }
}

pub fn something_that_cannot_listen_is_reported_and_not_retried<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (no_listener, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let Ok(id) = world.io.listen(no_listener.as_fd(), Share::Exclusive) else {
        return; // Saying so at once is as good.
    };
    world.until("reported", |world| !world.book.listeners_closed.is_empty());
    let (closed, broken) = world.book.listeners_closed[0];
    assert_eq!(closed, id);
    assert!(broken.is_some());
}

pub fn each_of_four_reuseport_listeners_gets_its_share<B: Backend>(make: &Make<B>) {
    let first = reuseport("127.0.0.1:0".parse().unwrap());
    let address = first.local_addr().unwrap();
    let mut listeners = vec![first];
    listeners.extend((0..3).map(|_| reuseport(address)));
    let mut worlds = Vec::new();
    for listener in &listeners {
        let Some(io) = make(&small()) else { return };
        let mut world = World::new(io);
        world.io.listen(listener.as_fd(), Share::Exclusive).unwrap();
        worlds.push(world);
    }
    let clients: Vec<_> = (0..200).map(|_| Client::connect(address)).collect();
    let shares = accept_all(&mut worlds, clients.len());
    // By the kernel's hash: 50 each on average; below 20 has a chance of less than one in a
    // million per listener.
    assert!(shares.iter().all(|&share| share >= 20), "{shares:?}");
}

/// Four threads wait for connections that come one by one: they take turns, although the kernel
/// would go on waking the same one.
pub fn workers_on_one_shared_listener_all_get_connections<B: Backend>(make: &Make<B>) {
    const EACH: usize = 5;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shares: [AtomicUsize; 4] = Default::default();
    let (ready, accepted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = AtomicBool::new(false);
    let work = |share: &AtomicUsize| {
        let mut world = make(&small()).map(World::new);
        if let Some(world) = &mut world {
            world.io.listen(listener.as_fd(), Share::Shared).unwrap();
            world.turn_for(Wait::none());
        }
        ready.fetch_add(1, Relaxed);
        while let (Some(world), false) = (&mut world, done.load(Relaxed)) {
            let before = share.load(Relaxed);
            world.turn_for(Wait::at_most(Duration::from_millis(100)));
            share.store(world.book.accepted.len(), Relaxed);
            accepted.fetch_add(world.book.accepted.len() - before, Release);
        }
        world.is_some()
    };
    let mut clients = Vec::new();
    let there = std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .map(|share| scope.spawn(|| work(share)))
            .collect();
        until(&ready, shares.len(), &workers);
        // Twenty would do if all were asleep again each time, which a busy machine may delay.
        while clients.len() < 400
            && shares.iter().any(|share| share.load(Relaxed) < EACH)
            && !workers.iter().any(|worker| worker.is_finished())
        {
            clients.push(Client::connect(address));
            until(&accepted, clients.len(), &workers);
        }
        done.store(true, Relaxed);
        workers.into_iter().all(|worker| worker.join().unwrap())
    });
    println!("of {}: {shares:?}", clients.len());
    let fair = shares.iter().all(|share| share.load(Relaxed) >= EACH);
    assert!(fair || !there, "{shares:?}");
}

/// The one that is woken for a connection stops accepting in that very moment, and the kernel has
/// told nobody else.
pub fn a_worker_that_leaves_a_shared_listener_takes_no_connection_along<B: Backend>(
    make: &Make<B>,
) {
    for _ in 0..20 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = AtomicUsize::new(0);
        let ready = AtomicUsize::new(0);
        let done = EventFd::new().unwrap();
        let work = |leaves: bool| {
            let Some(io) = make(&small()) else {
                return accepted.store(1, Relaxed);
            };
            let mut world = World::new(io);
            world.io.watch(done.as_fd()).unwrap();
            let id = world.io.listen(listener.as_fd(), Share::Shared).unwrap();
            world.turn_for(Wait::none());
            world.book.unlisten_on_awake = leaves.then_some(id);
            ready.fetch_add(1, Relaxed);
            while accepted.load(Relaxed) == 0 {
                let asleep = boot_ns();
                // Nothing but the connection, or its acceptance by the other one, ends the wait.
                world.turn_for(Wait::at_most(PATIENCE));
                let slept = Duration::from_nanos(world.io.boot_ns() - asleep);
                assert!(slept < PATIENCE, "nobody heard of the connection");
                accepted.fetch_add(world.book.accepted.len(), Relaxed);
            }
            done.ring().unwrap();
        };
        std::thread::scope(|scope| {
            let work = &work;
            let mut workers = Vec::new();
            for leaves in [true, false] {
                workers.push(scope.spawn(move || work(leaves)));
                until(&ready, workers.len(), &workers);
            }
            let _client = Client::connect(address);
            until(&accepted, 1, &workers);
        });
    }
}

/// Waits until `count` is reached, or a worker is done before its time.
fn until<T>(counter: &AtomicUsize, count: usize, workers: &[ScopedJoinHandle<'_, T>]) {
    while counter.load(Acquire) < count && !workers.iter().any(|worker| worker.is_finished()) {
        std::thread::yield_now();
    }
}

/// During an upgrade two processes accept on the same sockets. The slower one of two must not
/// wait for the next connection.
pub fn two_generations_accept_on_one_socket<B: Backend>(make: &Make<B>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let Some(io) = make(&small()) else { return };
        let mut world = World::new(io);
        world.io.listen(listener.as_fd(), Share::Exclusive).unwrap();
        world.turn_for(Wait::none());
        worlds.push(world);
    }
    let mut clients = Vec::new();
    for burst in [1, 1, 2, 3, 30] {
        clients.extend((0..burst).map(|_| Client::connect(address)));
        accept_all(&mut worlds, clients.len());
    }
    worlds[0].until_quiet();
}

/// Turns all until `total` connections are accepted; says who got how many.
fn accept_all<B: Backend>(worlds: &mut [World<B>], total: usize) -> Vec<usize> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for world in worlds.iter_mut() {
            world.turn_for(Wait::none());
        }
        let shares: Vec<_> = worlds
            .iter()
            .map(|world| world.book.accepted.len())
            .collect();
        if shares.iter().sum::<usize>() == total {
            return shares;
        }
        assert!(Instant::now() < deadline, "never all accepted: {shares:?}");
    }
}

fn reuseport(address: SocketAddr) -> TcpListener {
    let SocketAddr::V4(v4) = address else {
        panic!("IPv4 only")
    };
    // SAFETY: plain calls with valid pointers; the descriptor is owned at once.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let socket = OwnedFd::from_raw_fd(fd);
        let (fd, on) = (socket.as_raw_fd(), 1i32);
        let option = (libc::SOL_SOCKET, libc::SO_REUSEPORT);
        assert_eq!(
            libc::setsockopt(fd, option.0, option.1, (&raw const on).cast(), 4),
            0
        );
        let name = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: v4.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(*v4.ip()).to_be(),
            },
            sin_zero: [0; 8],
        };
        let length = size_of_val(&name) as u32;
        assert_eq!(libc::bind(fd, (&raw const name).cast(), length), 0);
        assert_eq!(libc::listen(fd, 512), 0);
        TcpListener::from(socket)
    }
}
