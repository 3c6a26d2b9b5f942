package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

// outside returns the name of an object that reads or changes something outside of the process, and ""
// for everything else.
func outside(o types.Object) string {
	if o == nil || o.Pkg() == nil {
		return ""
	}
	path, name := major(o.Pkg().Path()), o.Name()
	f, ok := o.(*types.Func)
	if !ok {
		if path == "os" && (name == "Args" || name == "Stdin") && o.Parent() == o.Pkg().Scope() {
			return "os." + name
		}
		return ""
	}
	if recv := f.Signature().Recv(); recv != nil {
		t := receiver(recv.Type())
		if t != "" && reaches(path+"."+t, name) || contextual(path, f) {
			return o.Pkg().Name() + "." + t + "." + name
		}
		return ""
	}
	if reaches(path, name) {
		return o.Pkg().Name() + "." + name
	}
	return ""
}

// receiver returns the name of the type of a method's receiver.
func receiver(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// reaches looks in the table below.
func reaches(of, name string) bool {
	for _, known := range world[of] {
		if prefix, ok := strings.CutSuffix(known, "*"); known == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return of == "os" && !slices.Contains(inProcess, name) && !strings.HasPrefix(name, "Is")
}

// inProcess are the functions of package os that reach nothing outside.
var inProcess = []string{"Exit", "Expand", "NewFile", "NewSyscallError", "SameFile", "DirFS"}

// world are functions and methods that reach outside, by package or type. A star stands for the rest
// of a name. Of package os, all but a few functions do.
var world = map[string][]string{
	"io/ioutil":     {"Read*", "Write*", "Temp*"},
	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk*"},
	"os.File":       {"Ch*", "Read*", "Seek", "Stat", "Sync", "Truncate", "Write*"},
	"os.Root":       {"*"},
	"os.Process":    {"*"},
	"os/exec":       {"LookPath"},
	"os/exec.Cmd":   {"Run", "Start", "Wait", "Output", "CombinedOutput"},
	"text/template": {"ParseFiles", "ParseGlob"},
	"html/template": {"ParseFiles", "ParseGlob"},
	"os/user":       {"Current", "Lookup*"},

	"net":                {"Dial*", "Interface*", "Listen*", "Lookup*", "Resolve*"},
	"net.Conn":           {"Read", "Write"},
	"net.Dialer":         {"Dial*"},
	"net.ListenConfig":   {"Listen*"},
	"net.Resolver":       {"Lookup*"},
	"net/http":           {"Get", "Head", "Post", "PostForm", "ListenAndServe*", "Serve", "ServeTLS"},
	"net/http.Client":    {"Do", "Get", "Head", "Post", "PostForm"},
	"net/http.Transport": {"RoundTrip"},
	"net/rpc":            {"Dial*"},
	"net/rpc.Client":     {"Call", "Go"},
	"net/smtp":           {"Dial", "SendMail"},
	"crypto/tls":         {"Dial*", "Listen"},
	"crypto/tls.Dialer":  {"Dial*"},

	"database/sql":      {"Open*"},
	"database/sql.DB":   {"Begin*", "Conn", "Exec*", "Ping*", "Prepare*", "Query*"},
	"database/sql.Conn": {"Begin*", "Exec*", "Ping*", "Prepare*", "Query*"},
	"database/sql.Tx":   {"Commit", "Exec*", "Prepare*", "Query*", "Rollback"},
	"database/sql.Stmt": {"Exec*", "Query*"},

	"github.com/jmoiron/sqlx":             {"Connect*", "Get*", "MustExec*", "NamedExec*", "NamedQuery*", "Open", "Select*"},
	"github.com/jmoiron/sqlx.DB":          {"Begin*", "Get*", "MustBegin*", "MustExec*", "Named*", "Query*", "Select*"},
	"github.com/jmoiron/sqlx.Tx":          {"Get*", "MustExec*", "Named*", "Query*", "Select*"},
	"gorm.io/gorm.DB":                     {"Begin", "Commit", "Count", "Create*", "Delete", "Exec", "Find*", "First*", "Last", "Pluck", "Rollback", "Save", "Scan*", "Take", "Transaction", "Update*"},
	"github.com/go-git/go-git":            {"Plain*", "Clone*"},
	"github.com/go-git/go-git.Repository": {"*"},
	"github.com/go-git/go-git.Worktree":   {"*"},
	"github.com/spf13/viper":              {"ReadInConfig"},
	"github.com/joho/godotenv":            {"Load", "Overload", "Read"},
}

// clients are packages for databases and services whose methods take a context if and only if they
// use the network.
var clients = []string{
	"github.com/jackc/pgx", "github.com/redis/go-redis", "go.mongodb.org/mongo-driver", "cloud.google.com/go",
	"github.com/aws/aws-sdk-go-v2", "github.com/Azure/azure-sdk-for-go", "google.golang.org/grpc", "github.com/nats-io/nats.go",
	"go.etcd.io/etcd/client", "github.com/minio/minio-go",
}

// contextual reports whether a method belongs to such a package and takes a context.
func contextual(path string, f *types.Func) bool {
	params := f.Signature().Params()
	if params.Len() == 0 || !isContext(params.At(0).Type()) {
		return false
	}
	return slices.ContainsFunc(clients, func(c string) bool { return path == c || strings.HasPrefix(path, c+"/") })
}
