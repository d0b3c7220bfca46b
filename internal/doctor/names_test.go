package doctor_test

import (
	"errors"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/doctor"
)

func TestClusterDNSFindings(t *testing.T) {
	with := []string{"10.96.0.10"}
	for _, c := range []struct {
		name     string
		dns      []string
		resolver *doctor.Resolver
		level    doctor.Level
		say      string
	}{
		{"as it should be", with, &doctor.Resolver{Path: "/etc/resolv.conf", Servers: []string{"192.0.2.1"}}, doctor.OK,
			"its Pods ask 10.96.0.10"},
		{"another machine's file is not known", with, nil, doctor.OK, "its Pods ask 10.96.0.10"},
		{"no cluster DNS", nil, nil, doctor.Warning, "MissingClusterDNS"},
		{"a stub on loopback", with, &doctor.Resolver{Path: "/etc/resolv.conf", Servers: []string{"127.0.0.53"}},
			doctor.Note, "/etc/resolv.conf names no server that a Pod can reach (127.0.0.53)"},
		{"an empty file", with, &doctor.Resolver{Path: "/r"}, doctor.Note, "/r names no server:"},
		{"no file", with, &doctor.Resolver{Path: "/r", Err: errors.New("gone")}, doctor.Note,
			"/r cannot be read (gone)"},
	} {
		found := doctor.Examine(
			doctor.Facts{
				Nodes: []doctor.Node{{Name: "n1", Config: &kubeletconfig.KubeletConfiguration{ClusterDNS: c.dns},
					Resolver: c.resolver}}})
		worst, said := doctor.OK, ""
		for _, f := range found {
			if f.Check != "names" {
				continue
			}
			worst, said = max(worst, f.Level), said+f.Text+"\n"
			if (f.Fix == "") != (f.Level == doctor.OK) {
				t.Errorf("%s: remedy %q for %s", c.name, f.Fix, f.Text)
			}
		}
		if worst != c.level || !strings.Contains(said, c.say) {
			t.Errorf("%s: %s, want %s with %q:\n%s", c.name, worst, c.level, c.say, said)
		}
	}
}
