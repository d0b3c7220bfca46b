// Package finding says what is wrong with API objects, as data: which object and field are to
// blame, what stands there, what would do, with numbers and remedies.
//
// In: Cluster, the objects that were read, and which kinds could be read. Out: Finding values; a
// text is a rendering of them. Each rule is a pure function and a row of rules; a kind of
// reference is a row of what references returns. Nothing here reads a clock, a file or a client.
package finding
