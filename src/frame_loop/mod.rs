//! Clock, slots, budgets, admission, deadlines; the one place that knows the order of the stages.
