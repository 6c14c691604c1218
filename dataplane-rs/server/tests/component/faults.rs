//! A control plane that writes what cannot be. The data plane gives itself up, so that the
//! supervisor starts another one with lanes of its own; it does not panic, and no sender gets a 2xx
//! that nobody has promised.

use crate::control::{CONSUME, ControlPlane, Frame, REPLY_CAPACITY, REPLY_COMMIT, RETIRED};
use crate::sender::post;
use crate::world::{Setup, World};
use shm_abi::{REPLY_ACCEPTED, REPLY_REFUSED};

/// Two workers, a request open at each; then `wrong` is done to the lane of the first.
fn ends_by_itself(wrong: impl FnOnce(&mut ControlPlane, &Frame)) {
    let Some(mut world) = World::start(Setup {
        workers: 2,
        ..Setup::default()
    }) else {
        return;
    };
    let mut senders = [world.connect(0), world.connect(1)];
    for sender in &mut senders {
        sender.send(&post("/a", b"open"));
    }
    let frame = world.control[0].frame();
    let _other = world.control[1].frame();
    let mut watch = world.plane.watch();
    wrong(&mut world.control[0], &frame);
    for sender in &mut senders {
        sender.expect_end();
    }
    assert_eq!(
        world.end(),
        [true, true],
        "workers end in order, not by a panic"
    );
    assert!(world.plane.failed());
    let notice = watch.try_recv().unwrap();
    assert_eq!(notice.level, "error");
    assert!(notice.message.contains("worker 0"), "{}", notice.message);
    for worker in 0..2 {
        assert_eq!(world.plane.counters.source(worker, 0).code_2xx(), 0);
    }
}

#[test]
fn a_wrong_reply_commit_ends_the_data_plane() {
    for value in [7, 1 << 40, u64::MAX, REPLY_CAPACITY + 64] {
        ends_by_itself(|lane, _| lane.store(REPLY_COMMIT, value));
    }
}

#[test]
fn a_wrong_consume_ends_the_data_plane() {
    ends_by_itself(|lane, frame| lane.store(CONSUME, frame.end() + 64));
    ends_by_itself(|lane, _| lane.store(CONSUME, u64::MAX));
}

#[test]
fn a_lane_that_is_given_up_ends_the_data_plane() {
    ends_by_itself(|lane, _| lane.store(RETIRED, 1));
}

#[test]
fn a_reply_that_means_nothing_is_no_2xx_and_ends_the_data_plane() {
    ends_by_itself(|lane, frame| lane.reply(&frame.answer(9, 200)));
    ends_by_itself(|lane, frame| lane.reply(&frame.answer(0, 200)));
    ends_by_itself(|lane, frame| lane.reply(&frame.answer(REPLY_REFUSED, 200)));
}

#[test]
fn a_reply_with_wrong_lengths_ends_the_data_plane() {
    for length in [0u32, 63, 128, 1 << 20, u32::MAX] {
        ends_by_itself(|lane, frame| {
            lane.reply_of_length(&frame.answer(REPLY_ACCEPTED, 200), length)
        });
    }
}

#[test]
fn after_a_wrong_word_no_reply_behind_it_is_believed() {
    ends_by_itself(|lane, frame| {
        lane.reply_unrung(&frame.answer(9, 200));
        lane.accept(frame);
    });
}
