// Package fork is a copy of a cluster in memory and in virtual time.
//
// In: the objects of a cluster and how long containers take. Out: the cluster as it goes on, event
// by event: the API server's rules, the scheduler and the controllers are the real ones
// (memapi, scheduler.Manual, controllerruntime.ManualQueue), kubelets are virtualnode's. Nothing
// sleeps and nothing runs beside the caller: one part after the other does what it has to do at an
// instant, and when none has anything left, the clock goes to the next instant at which one has.
// Two forks of the same objects, times and seed do the same.
package fork
