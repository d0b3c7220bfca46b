package why

import "testing"

func TestTimeLimitOfWgetIsLeftOut(t *testing.T) {
	for in, want := range map[string]string{
		"until wget -q -T 2 -O /dev/null http://127.0.0.1:3128/ok; do sleep 2; done": "until wget -q -O /dev/null " +
			"http://127.0.0.1:3128/ok; do sleep 2; done",
		"wget -T5 -q http://a/b && nc -T 2": "wget -q http://a/b && nc -T 2",
		"wget -q http://a/b; tar -T 3":      "wget -q http://a/b; tar -T 3",
	} {
		x, err := parse([]byte("manifests: [{command: '" + in + "'}]"))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Manifests[0]["command"]; got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}
