// Package batch holds the rows of batch/v1: Job and CronJob.
//
// A Job without a manual selector is given labels nobody else has; its template never changes once
// it started; its status only moves towards an end, as clients of Jobs rely on it. In: nothing.
// Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and columns.
package batch
