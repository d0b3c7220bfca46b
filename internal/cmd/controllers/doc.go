// Package controllers is `gantry controllers`: the flags of the controllers alone, which app runs
// while this process holds their lease.
package controllers
