// Package node says what a Node's status means, for every component alike: whether it is ready.
//
// In: *v1.Node. Out: values, or pointers into the Node; nothing here changes it.
// Pure. To add: one function per question that two packages ask, with the rule's source in its
// comment.
package node
