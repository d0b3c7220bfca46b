package config

import (
	"fmt"
	"testing"

	"k8s.io/kubelet/config/v1beta1"
)

// qosReserved is a share of memory, and refused else in upstream's words.
func TestQOSReserved(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, "0 <nil>"},
		{map[string]string{"memory": "50%"}, "50 <nil>"},
		{map[string]string{"memory": "100%"}, "100 <nil>"},
		{map[string]string{"cpu": "50%"}, `0 cannot reserve "cpu" resource`},
		{map[string]string{"memory": "50"}, `0 failed to parse percentage "50" for "memory" resource: percentage ` +
			`expected, got '50'`},
		{map[string]string{"memory": "half%"}, `0 failed to parse percentage "half%" for "memory" resource: invalid ` +
			`number in percentage 'half%'`},
		{map[string]string{"memory": "101%"}, `0 failed to parse percentage "101%" for "memory" resource: percentage ` +
			`must be between 0 and 100`},
	} {
		got, err := QOSReserved(&v1beta1.KubeletConfiguration{QOSReserved: c.set})
		if text := fmt.Sprint(got, " ", err); text != c.want {
			t.Errorf("%v: got %s, want %s", c.set, text, c.want)
		}
	}
}
