//! One suite for every backend: what a [`sluice_kernel::Backend`] promises, seen from outside.
//!
//! A case is a function generic over the backend; [`suite!`] makes a test of each. It knows no
//! backend's insides: what only one can show (starved receives, queue overflows) is asserted
//! beside that backend, from the returned counters.

pub mod accepting;
pub mod closing;
pub mod descriptors;
pub mod pressure;
pub mod receiving;
pub mod sending;
pub mod waiting;
pub mod world;

/// Makes a test of every case. `$make` is a `fn(&Options) -> Option<impl Backend>`; it says why
/// if it gives `None`, and the case is then skipped.
macro_rules! suite {
    ($make:path: $($module:ident { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                conformance::$module::$case(&$make);
            }
        )*)*
    };
}
pub(crate) use suite;

/// The whole list, so that a second backend cannot forget one.
macro_rules! whole_suite {
    ($make:path) => {
        conformance::suite! { $make:
            accepting {
                a_listener_removed_in_a_callback_still_hands_over_the_rest,
                a_paused_listener_leaves_connections_in_the_queue,
                a_refused_connection_is_closed,
                a_removed_listener_loses_no_connection,
                a_seat_over_the_limit_gives_the_socket_back,
                accepted_sockets_inherit_the_listeners_options,
                each_of_four_reuseport_listeners_gets_its_share,
                a_worker_that_leaves_a_shared_listener_takes_no_connection_along,
                something_that_cannot_listen_is_reported_and_not_retried,
                two_generations_accept_on_one_socket,
                workers_on_one_shared_listener_all_get_connections,
            }
            closing {
                a_closed_seat_is_used_again_and_nothing_crosses_over,
                a_graceful_close_sends_what_is_queued_first,
                a_lingering_connection_ends_when_the_peer_does,
                a_lingering_connection_ends_when_the_caller_says_so,
                a_peer_that_talks_on_still_gets_its_answer,
                a_reset_at_any_point_leaves_nothing_behind,
                an_aborted_connection_is_reset,
                closing_an_idle_connection_sends_fin,
                closing_twice_reports_once,
                dropping_the_backend_ends_every_connection,
            }
            pressure {
                a_tiny_buffer_pool_delivers_everything,
                a_tiny_completion_queue_loses_nothing,
                a_tiny_submission_queue_sends_everything,
            }
            receiving {
                a_broken_connection_is_reported_with_its_error,
                a_half_closed_peer_still_gets_its_answer,
                a_peer_that_half_closed_gets_even_a_late_answer,
                a_piece_after_the_resume_does_not_overtake_the_one_before,
                a_reset_that_a_send_met_is_told_as_one,
                a_unix_socket_serves_like_any_other,
                bytes_and_their_end_in_one_go_are_both_heard,
                many_connections_echo_every_byte_in_order,
                nothing_comes_while_receiving_is_off,
                one_that_always_talks_does_not_keep_another_waiting,
                the_end_waits_until_receiving_is_on_again,
                toggling_in_every_callback_loses_nothing,
                urgent_data_does_not_hold_up_what_follows,
                what_is_not_wanted_keeps_nobody_awake,
            }
            sending {
                a_large_answer_arrives_whole_at_a_slow_reader,
                a_send_that_follows_a_send_is_for_another_turn,
                a_send_to_a_peer_that_is_gone_fails_and_gives_the_buffer_back,
                answers_keep_their_order,
                nothing_to_send_is_refused,
                pausing_the_receiver_does_not_disturb_a_send,
                the_send_queue_is_bounded,
                unsent_answers_come_back_before_the_end,
                what_is_ordered_behind_an_answer_waits_for_no_other_event,
            }
            waiting {
                a_bell_rung_before_it_was_watched_is_heard,
                a_bell_that_is_no_longer_watched_is_silent,
                a_signal_ends_the_wait_and_is_no_error,
                a_turn_without_events_ends_at_its_limit,
                awake_comes_before_everything_else_of_a_turn,
                every_ring_is_heard_without_emptying_the_bell,
                gathering_waits_for_company_but_not_for_ever,
            }
        }
    };
}
pub(crate) use whole_suite;

/// The cases that change the process's limits; for a test binary of their own.
macro_rules! descriptor_suite {
    ($make:path) => {
        conformance::suite! { $make:
            descriptors {
                a_lasting_shortage_of_descriptors_refuses_instead_of_hanging,
                a_shortage_of_descriptors_keeps_nobody_awake,
                connections_wait_out_a_shortage_of_descriptors,
            }
        }
    };
}
pub(crate) use descriptor_suite;
