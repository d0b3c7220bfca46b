// Package certreload follows files of certificates while a server runs.
//
// A file is read again when its size, time or inode changed, which is looked at every five seconds,
// by all followers in the same moment. The library's own followers hold an inotify instance and a
// queue each, and wake an idle process twice a second each. In: paths. Out: what serving and
// authentication of the library ask for (CAContentProvider, CertKeyContentProvider), and word to
// listeners when it changed. A file that cannot be used leaves what was read before in force.
package certreload
