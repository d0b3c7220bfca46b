// Package leaderelection runs a component's work while its process holds a Lease, so that of
// several processes one works. Flags, defaults and texts are upstream's.
package leaderelection
