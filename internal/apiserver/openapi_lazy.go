package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	specbuilder "k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// serveOpenAPI serves the OpenAPI documents of the built-in kinds. Each is made at the first
// request: most servers never need them, and they would take a quarter of the start.
func serveOpenAPI(s *genericapiserver.GenericAPIServer, paths []Path, c *genericapiserver.Config) error {
	v2, v3 := c.OpenAPIConfig, c.OpenAPIV3Config
	services := s.Handler.GoRestfulContainer.RegisteredWebServices()
	for _, p := range paths {
		if p.Doc != nil {
			services = append(services, webServiceFor(p))
		}
	}
	if v2 != nil {
		doc := cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
			out, err := specbuilder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), v2)
			if err != nil {
				return nil, "", err
			}
			out.Definitions = handler.PruneDefaults(out.Definitions)
			return out, "built-in", nil
		}))
		handler.NewOpenAPIServiceLazy(doc).RegisterOpenAPIVersionedService("/openapi/v2", s.Handler.NonGoRestfulMux)
	}
	p := &groupVersionDocuments{hash: binaryHash(), groups: map[string]func() http.Handler{}}
	for _, ws := range services {
		p.groups[ws.RootPath()[1:]] = sync.OnceValue(func() http.Handler { return groupVersionHandler(ws, v3) })
	}
	index, err := p.index()
	if err != nil {
		return fmt.Errorf("OpenAPI index: %w", err)
	}
	s.Handler.NonGoRestfulMux.Handle("/openapi/v3", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"`+p.hash+`"`)
		http.ServeContent(w, req, "", time.Time{}, strings.NewReader(index))
	}))
	s.Handler.NonGoRestfulMux.HandlePrefix("/openapi/v3/", p)
	return nil
}

// webServiceFor returns a path as a WebService for the documents; its handler is elsewhere.
func webServiceFor(p Path) *restful.WebService {
	ws := new(restful.WebService).Path(p.Path)
	ws.Doc(p.Doc.Text)
	ws.Route(ws.GET("").To(func(*restful.Request, *restful.Response) {}).
		Operation(p.Doc.Operation).Doc(p.Doc.Text).Produces(p.Doc.Produces).Returns(http.StatusOK, "OK", ""))
	return ws
}

// groupVersionHandler returns the handler of one group version's OpenAPI v3 document, which it
// makes at the first request.
func groupVersionHandler(ws *restful.WebService, v3 *common.OpenAPIV3Config) http.Handler {
	c := restful.NewContainer()
	c.Add(ws)
	m := mux.NewPathRecorderMux("openapi-v3 " + ws.RootPath())
	routes.OpenAPI{V3Config: v3}.InstallV3(c, m)
	return m
}

// groupVersionDocuments serves the OpenAPI v3 documents of group versions. The hash in their URLs
// is the program's, as the documents change with it only.
type groupVersionDocuments struct {
	hash   string
	groups map[string]func() http.Handler
}

// index returns the list of documents.
func (p *groupVersionDocuments) index() (string, error) {
	out := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for path := range p.groups {
		u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {p.hash}}.Encode()}
		out.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: u.String()}
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

// ServeHTTP implements http.Handler. A request with the current hash gets a document that may be
// cached forever; another hash is redirected.
func (p *groupVersionDocuments) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.Path, "/openapi/v3/")
	document, ok := p.groups[path]
	if !ok {
		http.NotFound(w, req)
		return
	}
	switch hash := req.URL.Query().Get("hash"); hash {
	case "":
	case p.hash:
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	default:
		http.Redirect(w, req, "/openapi/v3/"+path+"?"+url.Values{"hash": {p.hash}}.Encode(),
			http.StatusMovedPermanently)
		return
	}
	bare := req.Clone(req.Context())
	bare.URL.RawQuery = ""
	document().ServeHTTP(w, bare)
}

// binaryHash returns a hash that differs between builds of the program.
func binaryHash() string {
	id := "unknown"
	if path, err := os.Executable(); err == nil {
		if info, err := os.Stat(path); err == nil {
			id = fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
		}
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}
