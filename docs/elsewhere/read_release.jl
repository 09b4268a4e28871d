# Load and verify a release of eigenveil in Julia, with its standard library alone.
#
#   include("read_release.jl"); release = read_release("folder")
#   julia read_release.jl folder
#
# A zip is unpacked first. The page is not rendered again and a signature is not checked:
# `eigenveil verify` does both.

using SHA

const FILES = Set(["release.json", "arrays.npz", "report.html"])

function check_sums(folder)
    sums = Dict(reverse(split(line, "  "; limit = 2)) for line in eachline(joinpath(folder, "SHA256SUMS")))
    Set(keys(sums)) == FILES || error("SHA256SUMS does not name the files of a release")
    present = setdiff(Set(readdir(folder)), ["SHA256SUMS", "SIGNATURE"])
    present == FILES || error("a file is missing, or there is one more")
    for (name, stated) in sums
        found = bytes2hex(open(sha256, joinpath(folder, name)))
        found == stated || error("$name does not match SHA256SUMS: damaged or altered")
    end
end

# JSON: objects become Dicts, arrays vectors, null nothing; all numbers are floats.
function parse_json(text)
    letters, at = collect(text), 1
    wrong() = error("release.json is not JSON")
    peek() = at <= length(letters) ? letters[at] : wrong()
    take() = (letter = peek(); at += 1; letter)
    expect(word) = all(take() == letter for letter in word) || wrong()
    function blank()
        while at <= length(letters) && letters[at] in " \t\r\n"
            at += 1
        end
    end
    escapes = Dict('n' => '\n', 't' => '\t', 'r' => '\r', 'b' => '\b', 'f' => '\f', '"' => '"', '\\' => '\\', '/' => '/')
    code() = parse(UInt32, String([take() for _ in 1:4]); base = 16)
    function escaped()
        letter = take()
        letter == 'u' || return get(wrong, escapes, letter)
        first = code()
        0xd800 <= first < 0xdc00 || return Char(first)
        expect("\\u") # the second half of a character beyond 16 bits
        return Char(0x10000 + ((first - 0xd800) << 10) + (code() - 0xdc00))
    end
    function quoted()
        expect("\"")
        words = Char[]
        while (letter = take()) != '"'
            push!(words, letter == '\\' ? escaped() : letter)
        end
        return String(words)
    end
    function several(found, last, item)
        take()
        blank()
        while peek() != last
            isempty(found) || (expect(","); blank())
            push!(found, item())
            blank()
        end
        take()
        return found
    end
    field() = (name = quoted(); blank(); expect(":"); name => value())
    function value()
        blank()
        letter = peek()
        letter == '{' && return several(Dict{String,Any}(), '}', field)
        letter == '[' && return several(Any[], ']', value)
        letter == '"' && return quoted()
        for (word, meaning) in ("true" => true, "false" => false, "null" => nothing)
            letter == word[1] && (expect(word); return meaning)
        end
        start = at
        while at <= length(letters) && letters[at] in "+-.eE0123456789"
            at += 1
        end
        number = tryparse(Float64, String(letters[start:at-1]))
        return number === nothing ? wrong() : number
    end
    found = value()
    blank()
    return at > length(letters) ? found : wrong()
end

# Members of an uncompressed zip, by the local headers that lie before each of them.
function members(bytes)
    found, at = Dict{String,Vector{UInt8}}(), 1
    number(type, offset) = ltoh(reinterpret(type, bytes[at+offset:at+offset+sizeof(type)-1])[1])
    while at + 30 <= length(bytes) && bytes[at:at+3] == UInt8[0x50, 0x4b, 0x03, 0x04]
        number(UInt16, 8) == 0 || error("arrays.npz is compressed")
        size, name, extra = Int(number(UInt32, 18)), Int(number(UInt16, 26)), Int(number(UInt16, 28))
        if size == 0xffffffff # of 64 bits, in the extra field
            size = Int(number(UInt64, 30 + name + 4))
        end
        start = at + 30 + name + extra
        found[String(bytes[at+30:at+29+name])] = bytes[start:start+size-1]
        at = start + size
    end
    return found
end

# One array of NumPy's format: a header of text, then 64-bit floats.
function read_npy(bytes, shape)
    bytes[1:6] == UInt8[0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] || error("an array is not in NumPy's format")
    width = bytes[7] == 1 ? 2 : 4
    size = Int(ltoh(reinterpret(width == 2 ? UInt16 : UInt32, bytes[9:8+width])[1]))
    header = String(bytes[9+width:8+width+size])
    occursin("'<f8'", header) || error("an array does not hold 64-bit floats")
    values = ltoh.(reinterpret(Float64, bytes[9+width+size:end]))
    length(values) == prod(shape) || error("an array has another shape than release.json says")
    length(shape) < 2 && return collect(values)
    occursin("'fortran_order': True", header) && return reshape(collect(values), shape...)
    # NumPy counts the last index fastest.
    return permutedims(reshape(collect(values), reverse(shape)...), length(shape):-1:1)
end

function read_release(folder)
    check_sums(folder)
    statement = parse_json(read(joinpath(folder, "release.json"), String))
    statement["schema"] == "eigenveil-release/1" || error("not a release of schema 1")
    files = members(read(joinpath(folder, "arrays.npz")))
    named = statement["arrays"]
    Set(keys(files)) == Set(name * ".npy" for name in keys(named)) ||
        error("release.json and arrays.npz name other arrays")
    arrays = Dict(name => read_npy(files[name * ".npy"], Int.(named[name]["shape"])) for name in keys(named))
    return (
        kind = statement["kind"], mechanism = statement["mechanism"],
        columns = statement["settings"]["feature_names"],
        statement = statement["guarantee"]["sentence"], arrays = arrays,
    )
end

if abspath(PROGRAM_FILE) == @__FILE__
    release = read_release(only(ARGS))
    println(release.kind, " by ", release.mechanism)
    println(release.statement)
    for (name, values) in release.arrays
        println(name, " ", size(values))
    end
end
