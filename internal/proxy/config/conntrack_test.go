package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/proxy/config"
)

// TestConntrackIsSetAsUpstreamsKubeProxySetsIt: the file's value, else upstream's default; 0 leaves
// a setting as it is.
func TestConntrackIsSetAsUpstreamsKubeProxySetsIt(t *testing.T) {
	const times = " tcp_timeout_established=86400 tcp_timeout_close_wait=3600"
	for _, c := range []struct {
		body  string
		cores int
		want  string
	}{
		{"", 2, "max>=131072 hashsize>=32768" + times},
		{"", 16, "max>=524288 hashsize>=131072" + times},
		{"", 64, "max>=1048576 hashsize>=262144" + times},
		{"conntrack: {maxPerCore: 0}", 2, times},
		{"conntrack: {maxPerCore: 0, min: 500000}", 2, times},
		{"conntrack: {maxPerCore: 1000, min: 0}", 2, "max>=2000! hashsize>=500!" + times},
		{"conntrack: {maxPerCore: 1000, min: 4000}", 2, "max>=4000! hashsize>=1000!" + times},
		{"conntrack: {maxPerCore: 1000000, min: 2000000}", 2, "max>=1048576! hashsize>=262144!" + times},
		{"conntrack: {min: 200000}", 2, "max>=200000! hashsize>=50000!" + times},
		{"conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}", 2, ""},
		{"conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 2h, tcpCloseWaitTimeout: 90s, tcpBeLiberal: true, " +
			"udpTimeout: 45s, udpStreamTimeout: 5m}", 2,
			" tcp_timeout_established=7200! tcp_timeout_close_wait=90! tcp_be_liberal=1! udp_timeout=45! " +
				"udp_timeout_stream=300!"},
	} {
		l, err := load(t, head+c.body)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(show(l.Conntrack(c.cores)), " "); got != strings.TrimSpace(c.want) {
			t.Errorf("%q with %d cores:\n got %s\nwant %s", c.body, c.cores, got, c.want)
		}
		if len(l.IgnoredFields) > 0 {
			t.Errorf("%q: without effect: %v", c.body, l.IgnoredFields)
		}
	}
}

// show prints settings: their file's name, = or >=, the value, and ! when the file says so.
func show(all []config.Sysctl) (out []string) {
	for _, s := range all {
		name := strings.TrimPrefix(s.Path[strings.LastIndex(s.Path, "/")+1:], "nf_conntrack_")
		sign, given := "=", ""
		if s.Minimum {
			sign = ">="
		}
		if s.Configured {
			given = "!"
		}
		out = append(out, fmt.Sprintf("%s%s%d%s", name, sign, s.Value, given))
	}
	return out
}
