//! Who may do what, and that everybody acts for itself.

mod callers;
mod own_eyes;
mod routes;
mod table;
mod two_rooms;
