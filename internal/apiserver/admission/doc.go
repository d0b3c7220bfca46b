// Package admission lists the admission plugins of this server, one directory each, beside those of
// the library.
//
// A write that is authenticated and authorized passes every plugin: mutating halves first, then
// validating halves, in upstream's order. In: what the server's initializers hand out. Out: names
// and factories. To add one: a directory, and a line in Plugins.
package admission
