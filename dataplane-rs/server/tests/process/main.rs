//! The program as it is started: what it takes away from itself, what it then still does, and what
//! it says where the host does not give what it wants. The control plane is played by the test.

mod call;
mod plane;
mod refusals;
mod serving;
