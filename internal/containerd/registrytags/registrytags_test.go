package registrytags_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-project/gantry/internal/containerd/registrytags"
	"github.com/gantry-project/gantry/test/images"
)

// A host's mirror is asked as hosts.toml says, with the credentials given and without.
func TestList(t *testing.T) {
	locked := false
	r, err := images.Serve(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if u, p, _ := req.BasicAuth(); locked && (u != "robot" || p != "pass") {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, req)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tag := range []string{"team/web:1.0", "team/web:1.1"} {
		if err := r.Push(tag, images.Busybox); err != nil {
			t.Fatal(err) // make deps installs what the image is made of
		}
	}
	dir := t.TempDir()
	if err := r.Mirror(dir, "shop.test:5000"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shop.test:5000")); err != nil {
		t.Fatal(err)
	}
	ask := registrytags.Request{Dir: dir, Image: "shop.test:5000/team/web:2"}
	want := []string{"1.0", "1.1"}
	if got, err := registrytags.List(t.Context(), ask); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	locked = true
	if got, err := registrytags.List(t.Context(), ask); err == nil {
		t.Errorf("an anonymous question to a locked registry: %v", got)
	}
	ask.User, ask.Password = "robot", "pass"
	if got, err := registrytags.List(t.Context(), ask); err != nil || !slices.Equal(got, want) {
		t.Errorf("with credentials: %v %v, want %v", got, err, want)
	}
}
