// Package encryptioncheck checks at start whether the keys of the EncryptionConfiguration decrypt
// what the store holds.
//
// The library encrypts and decrypts by an EncryptionConfiguration; a value it cannot open would
// keep a watch cache from ever filling, and nobody would see why. In: the store, the
// transformers, the resources the configuration names. Out: nil or *MissingKeyError, which names
// the resource, a key in the store and the remedy.
package encryptioncheck
