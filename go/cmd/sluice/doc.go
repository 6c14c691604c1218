// Command sluice is the webhook gateway: the daemon (`run`) and the command line that looks at it
// and steers it.
//
// A command other than `run` owns no state. What a command knows of a daemon it asks on the admin
// API; check, doctor, send, verify and version need none.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or config.
package main
