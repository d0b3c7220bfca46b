// Package resourcequota is the admission plugin ResourceQuota: it refuses what would exceed a quota
// of its namespace.
//
// In: an object being created, a Service or claim being changed, a Pod being resized; the quotas of
// its namespace. Out: a refusal, or the quota's status.used raised by what the object uses. What an
// object uses is known by internal/quota. The library does the sums and the conflicts. A quota
// counts from the time a controller has written status.hard.
package resourcequota
