package upgrade

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Forms that are known by how a value begins.
const (
	sealed   = "encrypted"
	unknown  = "unknown"
	sealMark = "k8s:enc:"
	protoTag = "k8s\x00"
)

// Form names how a value is stored: "protobuf v1", "JSON apps/v1beta1", "encrypted by aescbc:v1:key1".
func Form(value []byte) string {
	switch {
	case bytes.HasPrefix(value, []byte(sealMark)):
		// k8s:enc:<provider>:v1:<key>: and the ciphertext; a KMS of version 2 names its key inside
		parts := strings.SplitN(string(value[len(sealMark):min(len(value), 200)]), ":", 4)
		if parts[0] == "kms" || len(parts) < 4 {
			return sealed + " by " + strings.Join(parts[:min(2, len(parts))], ":")
		}
		return sealed + " by " + strings.Join(parts[:3], ":")
	case bytes.HasPrefix(value, []byte(protoTag)):
		var u runtime.Unknown
		if u.Unmarshal(value[len(protoTag):]) != nil {
			return unknown
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
	return unknown
}

// readable says that the form tells all about a value; what is encrypted may be anything inside.
func readable(form string) bool {
	return !strings.HasPrefix(form, sealed) && !strings.HasPrefix(form, "CBOR") && form != unknown
}
