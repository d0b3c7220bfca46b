// Package audit writes who asked what of the API server, as a policy file has it, to a file or to a
// webhook.
//
// In: upstream's --audit-* options. Out: a server configuration with a backend, or an error that
// names the flag. The library does the writing, rotating, batching and sending; this package
// refuses combinations that would silently record nothing.
package audit
