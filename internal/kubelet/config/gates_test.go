package config

import "testing"

// Gates that the documents name are known, on, and cannot be switched off.
// row: OPS-07
func TestGatesOfTheDocuments(t *testing.T) {
	for _, name := range []string{
		"SidecarContainers", "PodReadyToStartContainersCondition", "NodeOutOfServiceVolumeDetach",
		"PodDisruptionConditions", "UserNamespacesPodSecurityStandards",
	} {
		g, err := ResolveGates(map[string]bool{name: true})
		if err != nil || !g.On(name) {
			t.Errorf("%s=true: on %v, %v", name, g.On(name), err)
		}
		if _, err := ResolveGates(map[string]bool{name: false}); err == nil {
			t.Errorf("%s=false was taken", name)
		}
	}
}
