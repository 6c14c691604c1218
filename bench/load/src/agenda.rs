//! What is due and when: the schedules of all streams and the repeats of what was refused.
//!
//! Pure: it knows neither connections nor a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::schedule::Schedule;

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// When, in nanoseconds since the start.
    pub at_ns: u64,
    /// Which delivery: its id is made of this number, and a repeat keeps it.
    pub index: u64,
    /// Which stream.
    pub stream: usize,
    /// Which try of the delivery, from 1 on.
    pub attempt: u32,
}

/// Everything that is not yet due.
pub struct Agenda {
    ticks: Vec<Ticks>,
    repeats: BinaryHeap<Reverse<Due>>,
    next_index: u64,
    count: u64,
}

struct Ticks {
    rest: Box<dyn Iterator<Item = u64>>,
    next_ns: Option<u64>,
}

impl Agenda {
    /// The agenda of these streams, of at most `count` deliveries.
    pub fn new<'a>(schedules: impl Iterator<Item = &'a Schedule>, count: u64) -> Self {
        let ticks = schedules.map(|schedule| {
            let mut rest: Box<dyn Iterator<Item = u64>> = Box::new(schedule.ticks());
            let next_ns = rest.next();
            Ticks { rest, next_ns }
        });
        Self {
            ticks: ticks.collect(),
            repeats: BinaryHeap::new(),
            next_index: 0,
            count,
        }
    }

    /// When the next request is due; `None` once there is none left.
    pub fn next_ns(&self) -> Option<u64> {
        let fresh = self.fresh().map(|(_, at_ns)| at_ns);
        let repeat = self.repeats.peek().map(|Reverse(due)| due.at_ns);
        fresh.into_iter().chain(repeat).min()
    }

    /// Takes the next request if it is due by now.
    pub fn take(&mut self, now_ns: u64) -> Option<Due> {
        let fresh = self.fresh();
        if let Some(&Reverse(repeat)) = self.repeats.peek()
            && fresh.is_none_or(|(_, at_ns)| repeat.at_ns <= at_ns)
        {
            return (repeat.at_ns <= now_ns).then(|| {
                self.repeats.pop();
                repeat
            });
        }
        let (stream, at_ns) = fresh.filter(|&(_, at_ns)| at_ns <= now_ns)?;
        let ticks = &mut self.ticks[stream];
        ticks.next_ns = ticks.rest.next();
        Some(self.deliver(stream, at_ns))
    }

    /// A delivery that the closed loop wants now.
    pub fn deliver(&mut self, stream: usize, at_ns: u64) -> Due {
        let index = self.next_index;
        self.next_index += 1;
        Due {
            at_ns,
            index,
            stream,
            attempt: 1,
        }
    }

    /// Whether `count` deliveries were taken.
    pub fn spent(&self) -> bool {
        self.next_index >= self.count
    }

    /// Has a delivery sent once more, at this time.
    pub fn repeat(&mut self, due: Due, at_ns: u64) {
        self.repeats.push(Reverse(Due {
            at_ns,
            attempt: due.attempt + 1,
            ..due
        }));
    }

    /// The stream whose next delivery is due first, and when.
    fn fresh(&self) -> Option<(usize, u64)> {
        if self.spent() {
            return None;
        }
        let next = self.ticks.iter().enumerate();
        next.filter_map(|(stream, ticks)| Some((stream, ticks.next_ns?)))
            .min_by_key(|&(_, at_ns)| at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn schedule(text: &str) -> Schedule {
        Schedule::parse(text, Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn streams_are_merged_in_the_order_of_their_times() {
        let (fast, slow) = (schedule("100:1s,0:1s,100:1s"), schedule("30:3s"));
        let mut agenda = Agenda::new([&fast, &slow].into_iter(), u64::MAX);
        let mut taken = Vec::new();
        while let Some(at_ns) = agenda.next_ns() {
            if let Some(before) = at_ns.checked_sub(1) {
                assert_eq!(agenda.take(before), None);
            }
            let due = agenda.take(at_ns).unwrap();
            assert_eq!((due.at_ns, due.index), (at_ns, taken.len() as u64));
            taken.push((due.at_ns, due.stream));
        }
        assert!(taken.is_sorted_by_key(|&(at_ns, _)| at_ns));
        let of = |stream| taken.iter().filter(|&&(_, of)| of == stream).count();
        assert_eq!((of(0), of(1)), (200, 90));
    }

    #[test]
    fn a_repeat_keeps_its_delivery_and_comes_in_its_turn() {
        let mut agenda = Agenda::new([&schedule("2")].into_iter(), u64::MAX);
        let first = agenda.take(0).unwrap();
        agenda.repeat(first, 700_000_000);
        let second = agenda.take(u64::MAX).unwrap();
        assert_eq!(
            (second.at_ns, second.index, second.attempt),
            (500_000_000, 1, 1)
        );
        assert_eq!(agenda.next_ns(), Some(700_000_000));
        assert_eq!(agenda.take(699_999_999), None);
        let again = agenda.take(700_000_000).unwrap();
        assert_eq!((again.index, again.attempt), (first.index, 2));
        assert_eq!((agenda.next_ns(), agenda.take(u64::MAX)), (None, None));
    }

    #[test]
    fn the_count_bounds_deliveries_and_not_their_repeats() {
        let mut agenda = Agenda::new([&schedule("1000")].into_iter(), 2);
        let first = agenda.take(u64::MAX).unwrap();
        agenda.take(u64::MAX).unwrap();
        assert!(agenda.spent());
        assert_eq!(agenda.take(u64::MAX), None);
        agenda.repeat(first, 5);
        assert_eq!(agenda.take(5).map(|due| due.attempt), Some(2));
    }
}
