package features

import (
	"fmt"
	"strings"
	"testing"
)

func TestVersionsAreEmulated(t *testing.T) {
	for _, c := range []struct {
		versions []string
		want     Features
		err      string
	}{
		{nil, Features{}, ""},
		{[]string{"1.36"}, Features{V136: true, NoPersistentVolumeClaimUnusedSinceTime: true}, ""},
		{[]string{"kube=1.36"}, Features{V136: true, NoPersistentVolumeClaimUnusedSinceTime: true}, ""},
		{[]string{"1.37"}, Features{}, ""},
		{[]string{"1.35"}, Features{}, `"1.35": want 1.36 or 1.37`},
		{[]string{"wardle=1.2"}, Features{}, "want 1.36 or 1.37"},
	} {
		var f Features
		err := f.Emulate(c.versions)
		if got := fmt.Sprint(err); c.err != "" && !strings.Contains(got, c.err) ||
			c.err == "" && (err != nil || f != c.want) {
			t.Errorf("%v: got %+v, %v; want %+v, error %q", c.versions, f, err, c.want, c.err)
		}
	}
}

// row: OPS-07
func TestGatesAreReadAndUnknownOnesRefused(t *testing.T) {
	for _, c := range []struct {
		gates map[string]bool
		api   map[string]string
		want  Features
		err   string
	}{
		{nil, nil, Features{}, ""},
		{map[string]bool{"GenericWorkload": true}, nil, Features{GenericWorkload: true}, ""},
		{map[string]bool{"GenericWorkload": true}, map[string]string{"scheduling.k8s.io/v1beta1": "true"},
			Features{GenericWorkload: true}, ""},
		{map[string]bool{"GenericWorkload": true}, map[string]string{"scheduling.k8s.io/v1beta1": "false"}, Features{},
			""},
		{nil, map[string]string{"scheduling.k8s.io/v1beta1": "true"}, Features{},
			"--feature-gates=GenericWorkload=true"},
		{nil, map[string]string{"api/all": "true"}, Features{}, ""},
		{nil, map[string]string{"batch/v2alpha1": "true"}, Features{}, "cannot be switched"},
		{map[string]bool{"GangScheduling": true}, nil, Features{}, "since v1.37 it is a part of GenericWorkload"},
		{map[string]bool{"CBORServingAndStorage": true}, nil, Features{CBORServingAndStorage: true}, ""},
		{map[string]bool{"CSIVolumeHealth": true}, nil, Features{CSIVolumeHealth: true}, ""},
		{map[string]bool{"CrossNamespaceVolumeDataSource": true}, nil,
			Features{CrossNamespaceVolumeDataSource: true}, ""},
		{map[string]bool{"HPAScaleToZero": false}, nil, Features{NoHPAScaleToZero: true}, ""},
		{map[string]bool{"PersistentVolumeClaimUnusedSinceTime": false}, nil,
			Features{NoPersistentVolumeClaimUnusedSinceTime: true}, ""},
		{map[string]bool{"HPAScaleToZero": true}, nil, Features{}, ""},
		{map[string]bool{"Nonsense": true}, nil, Features{}, "unrecognized feature gate: Nonsense"},
		{map[string]bool{"SidecarContainers": true, "PodReadyToStartContainersCondition": true,
			"NodeOutOfServiceVolumeDetach": true, "PodDisruptionConditions": true,
			"UserNamespacesPodSecurityStandards": true}, nil, Features{}, ""},
		{map[string]bool{"SidecarContainers": false}, nil, Features{},
			"cannot set feature gate SidecarContainers to false, feature is locked to true"},
	} {
		f, err := Parse(c.gates)
		if err == nil {
			err = f.Serve(c.api)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v %v: error %v, want one with %q", c.gates, c.api, err, c.err)
			}
			continue
		}
		if err != nil || f != c.want {
			t.Errorf("%v %v: got %+v, %v, want no error and f %v", c.gates, c.api, f, err, c.want)
		}
	}
}
