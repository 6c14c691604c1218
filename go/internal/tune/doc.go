// Package tune keeps the numbers that admission works by: every tick it reads what the data planes
// counted, asks the controller (package admission) what follows, and publishes that in the control
// page, where the data planes read it.
//
// It decides about no request (the data planes do) and has no rule of its own: which number follows
// from which is package admission's.
//
// # What outlives what
//
// The control page outlives this process. The words stay in force while nobody ticks, and a new
// service takes the limit up where base_limit_milli says that it stood. A pin and the list of
// changes are this process's and end with it.
//
// Counters live and die with their data plane. Only differences between two ticks of the same one
// count, so that nothing jumps when one comes or goes.
//
// # Two data planes
//
// While one takes another one's place, both serve. Who is older than the newest that accepts works
// within elder_limit, which only falls, and the newest gets what the older ones leave of the limit.
//
// # Who may call
//
// Everything from any goroutine; Step is one tick, which Run makes every 20 ms. After Stop nothing
// writes to the control page any more.
package tune
