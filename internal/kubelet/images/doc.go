// Package images decides about images: pull or not, under which full name, with which credentials,
// when to try again, and which to remove when the disk fills.
//
// Image/pull acts on these decisions.
//
// In: a container's image and policy, what the runtime has, secrets, times. Out: decisions as
// values, refusals with upstream's texts.
package images
