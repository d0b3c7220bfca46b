package storageversionmigrator

import "testing"

func TestStoredEncodings(t *testing.T) {
	for want, value := range map[string]string{
		"JSON apps/v1beta1":           `{"kind":"Deployment","apiVersion":"apps/v1beta1"}`,
		"protobuf v1":                 "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00",
		"encrypted by aescbc:v1:key1": "k8s:enc:aescbc:v1:key1:\x00\x01:",
		"encrypted by kms:v2":         "k8s:enc:kms:v2:aws:\x00",
		"CBOR":                        "\xd9\xd9\xf7\xa0",
		"unknown":                     "\x00\x01",
	} {
		if got := StorageForm([]byte(value)); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}
