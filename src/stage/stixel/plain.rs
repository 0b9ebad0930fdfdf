//! Plain models that the programme is tested against.
