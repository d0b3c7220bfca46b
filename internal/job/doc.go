// Package job says what a Job's status means, for every component alike: whether it is finished.
//
// In: the conditions of a *batchv1.Job. Out: values, or pointers into them; nothing here changes
// them. Pure. To add: one function per question that two packages ask, with the rule's source in
// its comment.
package job
