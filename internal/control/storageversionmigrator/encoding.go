package storageversionmigrator

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Prefixes of encoded values.
const (
	encryptedForm   = "encrypted"
	unknownForm     = "unknown"
	encryptedPrefix = "k8s:enc:"
	protobufPrefix  = "k8s\x00"
)

// StorageForm describes how a value is stored: "protobuf v1", "JSON apps/v1beta1", "encrypted by
// aescbc:v1:key1".
func StorageForm(value []byte) string {
	switch {
	case bytes.HasPrefix(value, []byte(encryptedPrefix)):
		// k8s:enc:<provider>:v1:<key>: and the ciphertext; KMS v2 has its key name inside
		parts := strings.SplitN(string(value[len(encryptedPrefix):min(len(value), 200)]), ":", 4)
		if parts[0] == "kms" || len(parts) < 4 {
			return encryptedForm + " by " + strings.Join(parts[:min(2, len(parts))], ":")
		}
		return encryptedForm + " by " + strings.Join(parts[:3], ":")
	case bytes.HasPrefix(value, []byte(protobufPrefix)):
		var u runtime.Unknown
		if u.Unmarshal(value[len(protobufPrefix):]) != nil {
			return unknownForm
		}
		return "protobuf " + u.APIVersion
	}
	var t runtime.TypeMeta
	if json.Unmarshal(value, &t) == nil {
		return "JSON " + t.APIVersion
	}
	if bytes.HasPrefix(value, []byte{0xd9, 0xd9, 0xf7}) { // the tag of self-described CBOR
		return "CBOR"
	}
	return unknownForm
}

// isReadable reports whether the form determines the value's encoding; an encrypted value may
// contain any.
func isReadable(form string) bool {
	return !strings.HasPrefix(form, encryptedForm) && !strings.HasPrefix(form, "CBOR") && form != unknownForm
}
