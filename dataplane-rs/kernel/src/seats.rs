//! A table of fixed size whose seats are numbered and whose uses of one seat are told apart.

use crate::ids::GENERATION_MASK;

/// The table. It never grows past its capacity.
pub(crate) struct Seats<T> {
    seats: Vec<Seat<T>>,
    /// Free seats that were used before; the last freed is the next taken (its memory is warm).
    free: Vec<u32>,
    capacity: usize,
    taken: usize,
}

struct Seat<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Seats<T> {
    pub(crate) fn new(capacity: usize) -> Seats<T> {
        Seats {
            seats: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            taken: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Seats `value`; gives it back when the table is full.
    pub(crate) fn take(&mut self, value: T) -> Result<(u32, u32), T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.seats.len() == self.capacity => return Err(value),
            None => {
                self.seats.push(Seat {
                    generation: 0,
                    value: None,
                });
                (self.seats.len() - 1) as u32
            }
        };
        self.taken += 1;
        let seat = &mut self.seats[index as usize];
        seat.value = Some(value);
        Ok((index, seat.generation))
    }

    /// What sits there, if it is still of this generation.
    pub(crate) fn at(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let seat = self.seats.get_mut(index as usize)?;
        if seat.generation == generation {
            seat.value.as_mut()
        } else {
            None
        }
    }

    /// As [`Seats::at`], to look only.
    pub(crate) fn peek(&self, index: u32, generation: u32) -> Option<&T> {
        let seat = self.seats.get(index as usize)?;
        if seat.generation == generation {
            seat.value.as_ref()
        } else {
            None
        }
    }

    /// Empties a seat and makes its next use another generation.
    pub(crate) fn free(&mut self, index: u32, generation: u32) -> Option<T> {
        let seat = self.seats.get_mut(index as usize)?;
        if seat.generation != generation {
            return None;
        }
        let value = seat.value.take()?;
        seat.generation = (seat.generation + 1) & GENERATION_MASK;
        self.free.push(index);
        self.taken -= 1;
        Some(value)
    }

    /// Everything seated, in seat order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, u32, &mut T)> {
        self.seats
            .iter_mut()
            .enumerate()
            .filter_map(|(index, seat)| {
                let generation = seat.generation;
                seat.value
                    .as_mut()
                    .map(|value| (index as u32, generation, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_name_of_a_reused_seat_finds_nothing() {
        let mut seats = Seats::new(1);
        let (index, first) = seats.take("a").unwrap();
        assert_eq!(seats.free(index, first), Some("a"));
        let (again, second) = seats.take("b").unwrap();
        assert_eq!(index, again);
        assert_ne!(first, second);
        assert!(seats.at(index, first).is_none());
        assert!(seats.peek(index, first).is_none());
        assert!(seats.free(index, first).is_none());
        assert_eq!(seats.at(index, second), Some(&mut "b"));
    }

    #[test]
    fn a_full_table_gives_the_value_back() {
        let mut seats = Seats::new(2);
        seats.take(1).unwrap();
        let (index, generation) = seats.take(2).unwrap();
        assert_eq!(seats.take(3), Err(3));
        assert_eq!(seats.taken(), 2);
        seats.free(index, generation);
        assert_eq!(seats.taken(), 1);
        seats.take(3).unwrap();
    }

    #[test]
    fn generations_stay_inside_their_24_bits() {
        let mut seats = Seats::new(1);
        seats.take(()).unwrap();
        seats.seats[0].generation = GENERATION_MASK;
        seats.free(0, GENERATION_MASK);
        assert_eq!(seats.take(()).unwrap(), (0, 0));
    }
}
