// Package statusmanager writes Pods' statuses to the API server.
//
// One writer for all Pods: the newest status of each wins, a status that the API already has is not
// written, a failed write is repeated. Writes are strategic merge patches of the status subresource
// with the Pod's uid as precondition, so that conditions of other owners stay. After the last
// status of a deleted Pod it deletes the object with grace 0 and the uid as precondition.
//
// In: statuses from Pod workers, what the API has from the watch (Saw). Out: PATCH and DELETE
// requests, StatusWritten facts.
package statusmanager
